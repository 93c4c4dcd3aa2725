//! Units and entries, with references followed and names read.

use std::cell::OnceCell;
use std::collections::HashMap;

use gimli::{
    AttributeValue, DebugInfoOffset, DebuggingInformationEntry, DwAt, Dwarf, Unit, UnitHeader, UnitOffset,
    UnitSectionOffset, constants as dw,
};

use super::Bytes;

/// An entry: the number of its unit and its offset there.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Entry {
    pub unit: usize,
    pub offset: UnitOffset<usize>,
}

pub type Die<'a> = DebuggingInformationEntry<Bytes<'a>>;

/// All units of a file, each read when something in it is asked for.
pub struct Units<'a> {
    pub dwarf: &'a Dwarf<Bytes<'a>>,
    headers: Vec<UnitHeader<Bytes<'a>>>,
    units: Vec<OnceCell<Option<Unit<Bytes<'a>>>>>,
    starts: Vec<usize>,
}

impl<'a> Units<'a> {
    pub fn read(dwarf: &'a Dwarf<Bytes<'a>>) -> Result<Units<'a>, gimli::Error> {
        let (mut found, mut starts) = (Vec::new(), Vec::new());
        let mut headers = dwarf.units();
        while let Some(header) = headers.next()? {
            let UnitSectionOffset(start) = header.offset();
            starts.push(start);
            found.push(header);
        }
        let units = found.iter().map(|_| OnceCell::new()).collect();
        Ok(Units { dwarf, headers: found, units, starts })
    }

    /// How many units there are.
    pub fn len(&self) -> usize {
        self.headers.len()
    }

    /// A unit; none if it is damaged.
    pub fn unit(&self, number: usize) -> Option<&Unit<Bytes<'a>>> {
        let read = || self.dwarf.unit(*self.headers.get(number)?).ok();
        self.units.get(number)?.get_or_init(read).as_ref()
    }

    pub fn die(&self, entry: Entry) -> Option<Die<'a>> {
        self.unit(entry.unit)?.entry(entry.offset).ok()
    }

    /// The entry that an attribute refers to.
    pub fn reference(&self, unit: usize, die: &Die<'a>, name: DwAt) -> Option<Entry> {
        self.referred(unit, die.attr_value(name)?)
    }

    fn referred(&self, unit: usize, value: AttributeValue<Bytes<'a>>) -> Option<Entry> {
        match value {
            AttributeValue::UnitRef(offset) => Some(Entry { unit, offset }),
            AttributeValue::DebugInfoRef(DebugInfoOffset(at)) => {
                let unit = self.starts.partition_point(|start| *start <= at).checked_sub(1)?;
                Some(Entry { unit, offset: UnitOffset(at - self.starts[unit]) })
            }
            _ => None,
        }
    }

    /// An attribute of an entry, else of the one that it is an instance or the definition of.
    pub fn inherited(&self, entry: Entry, name: DwAt) -> Option<(usize, AttributeValue<Bytes<'a>>)> {
        let mut entry = entry;
        // Instance, declaration, and no more.
        for _ in 0..4 {
            let die = self.die(entry)?;
            if let Some(value) = die.attr_value(name) {
                return Some((entry.unit, value));
            }
            let origin = self.reference(entry.unit, &die, dw::DW_AT_abstract_origin);
            entry = origin.or_else(|| self.reference(entry.unit, &die, dw::DW_AT_specification))?;
        }
        None
    }

    /// The type of an entry, also when its declaration has it.
    pub fn type_of(&self, entry: Entry) -> Option<Entry> {
        let (unit, value) = self.inherited(entry, dw::DW_AT_type)?;
        self.referred(unit, value)
    }

    pub fn name(&self, entry: Entry) -> Option<String> {
        let (unit, value) = self.inherited(entry, dw::DW_AT_name)?;
        self.text(unit, value)
    }

    pub fn text(&self, unit: usize, value: AttributeValue<Bytes<'a>>) -> Option<String> {
        let text = self.dwarf.attr_string(self.unit(unit)?, value).ok()?;
        Some(text.to_string_lossy().into_owned())
    }

    /// A number, also where it stands for a name.
    pub fn number(&self, die: &Die<'a>, name: DwAt) -> Option<u64> {
        let value = match die.attr_value(name)? {
            AttributeValue::Encoding(encoding) => return Some(encoding.0.into()),
            AttributeValue::CallingConvention(convention) => return Some(convention.0.into()),
            value => value,
        };
        value.udata_value().or_else(|| value.sdata_value().map(|signed| signed as u64))
    }

    pub fn flag(&self, die: &Die<'a>, name: DwAt) -> bool {
        matches!(die.attr_value(name), Some(AttributeValue::Flag(true)))
    }

    /// The entries directly below one.
    pub fn children(&self, entry: Entry) -> Vec<(Entry, Die<'a>)> {
        let mut found = Vec::new();
        let Some(unit) = self.unit(entry.unit) else { return found };
        let Ok(mut cursor) = unit.entries_at_offset(entry.offset) else { return found };
        let Ok(Some(first)) = cursor.next_dfs() else { return found };
        if !first.has_children {
            return found;
        }
        while let Ok(Some(die)) = cursor.next_dfs() {
            match die.depth() {
                ..=0 => break,
                1 => found.push((Entry { unit: entry.unit, offset: die.offset() }, die.clone())),
                _ => {}
            }
        }
        found
    }

    /// Every entry of a unit, from its root on.
    pub fn each(&self, unit: usize, each: &mut dyn FnMut(Entry, &Die<'a>) -> bool) {
        let Some(read) = self.unit(unit) else { return };
        let mut cursor = read.entries();
        while let Ok(Some(die)) = cursor.next_dfs() {
            if !each(Entry { unit, offset: die.offset() }, die) {
                return;
            }
        }
    }

    /// Where an entry's code begins.
    pub fn low_pc(&self, unit: usize, die: &Die<'a>) -> Option<u64> {
        self.dwarf.attr_address(self.unit(unit)?, die.attr_value(dw::DW_AT_low_pc)?).ok()?
    }

    /// The function whose code begins at an address.
    pub fn function_at(&self, address: u64) -> Option<Entry> {
        (0..self.len()).filter(|unit| self.covers(*unit, address)).find_map(|unit| {
            let mut found = None;
            self.each(unit, &mut |entry, die| {
                let hit = die.tag() == dw::DW_TAG_subprogram
                    && (self.low_pc(unit, die) == Some(address)
                        || self.first_of_ranges(unit, die) == Some(address));
                if hit {
                    found = Some(entry);
                }
                !hit
            });
            found
        })
    }

    /// Where every function begins.
    pub fn functions(&self) -> HashMap<u64, Entry> {
        let mut found = HashMap::new();
        for unit in 0..self.len() {
            self.each(unit, &mut |entry, die| {
                if die.tag() == dw::DW_TAG_subprogram
                    && let Some(start) = self.low_pc(unit, die).or_else(|| self.first_of_ranges(unit, die))
                {
                    found.entry(start).or_insert(entry);
                }
                true
            });
        }
        found
    }

    /// A function in several parts is entered at the first.
    fn first_of_ranges(&self, unit: usize, die: &Die<'a>) -> Option<u64> {
        die.attr_value(dw::DW_AT_ranges)?;
        Some(self.dwarf.die_ranges(self.unit(unit)?, die).ok()?.next().ok()??.begin)
    }

    /// Whether a unit may have code at an address; one that does not say has everything.
    fn covers(&self, unit: usize, address: u64) -> bool {
        let Some(read) = self.unit(unit) else { return false };
        let Ok(mut ranges) = self.dwarf.unit_ranges(read) else { return true };
        let mut any = false;
        while let Ok(Some(range)) = ranges.next() {
            any = true;
            if (range.begin..range.end).contains(&address) {
                return true;
            }
        }
        !any
    }

    /// Definitions of named types.
    pub fn each_named(&self, each: &mut dyn FnMut(String, Entry)) {
        for unit in 0..self.len() {
            self.each(unit, &mut |entry, die| {
                let is_type = matches!(
                    die.tag(),
                    dw::DW_TAG_structure_type
                        | dw::DW_TAG_union_type
                        | dw::DW_TAG_class_type
                        | dw::DW_TAG_enumeration_type
                        | dw::DW_TAG_typedef
                );
                if is_type
                    && !self.flag(die, dw::DW_AT_declaration)
                    && let Some(name) =
                        die.attr_value(dw::DW_AT_name).and_then(|value| self.text(unit, value))
                {
                    each(name, entry);
                }
                true
            });
        }
    }

    /// How often each function was inlined, by name.
    pub fn inlined(&self) -> HashMap<String, u32> {
        // Where it was folded away nothing is left but the note that it was inlined.
        let mut counts: HashMap<Entry, u32> = HashMap::new();
        for unit in 0..self.len() {
            self.each(unit, &mut |entry, die| {
                let inline = match die.attr_value(dw::DW_AT_inline) {
                    Some(AttributeValue::Inline(inline)) => inline,
                    _ => dw::DW_INL_not_inlined,
                };
                if matches!(inline, dw::DW_INL_inlined | dw::DW_INL_declared_inlined) {
                    counts.entry(entry).or_default();
                }
                if die.tag() == dw::DW_TAG_inlined_subroutine
                    && let Some(origin) = self.reference(unit, die, dw::DW_AT_abstract_origin)
                {
                    *counts.entry(origin).or_default() += 1;
                }
                true
            });
        }
        let mut by_name: HashMap<String, u32> = HashMap::new();
        for (entry, count) in counts {
            if let Some(name) = self.name(entry) {
                *by_name.entry(name).or_default() += count;
            }
        }
        by_name
    }
}
