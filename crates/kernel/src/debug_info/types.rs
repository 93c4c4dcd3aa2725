//! Types of DWARF as BTF, which the compiler reads. Qualifiers go, classes are structs, a base class is a
//! member without a name.

use std::collections::HashMap;

use bpf::btf::{BtfMember, BtfWriter, TypeId};
use gimli::{AttributeValue, DwTag, Operation, constants as dw};

use super::dwarf::{Die, Entry, Units};

/// Types beyond these are only named.
const MOST: usize = 50_000;

/// Collects types and all that they need.
pub struct Types<'u, 'a> {
    units: &'u Units<'a>,
    definition: &'u dyn Fn(&str) -> Option<Entry>,
    known: HashMap<Entry, TypeId>,
    /// Number `n` of BTF is `nodes[n - 1]`; a place is taken before it is filled, for types that contain
    /// pointers to themselves.
    nodes: Vec<Node>,
}

enum Node {
    Pending,
    Int { name: String, size: u32, signed: bool, boolean: bool },
    Float { name: String, size: u32 },
    Pointer(TypeId),
    Array { element: TypeId, count: u32 },
    Record { name: String, union: bool, size: u32, members: Vec<Member> },
    Enum { name: String, size: u32, values: Vec<(String, i64)> },
    Typedef { name: String, to: TypeId },
    Forward { name: String, union: bool },
}

struct Member {
    name: String,
    type_id: TypeId,
    bit_offset: u32,
    bits: u32,
}

impl<'u, 'a> Types<'u, 'a> {
    /// `definition` finds a type that is only declared where it is used.
    pub fn new(units: &'u Units<'a>, definition: &'u dyn Fn(&str) -> Option<Entry>) -> Types<'u, 'a> {
        Types { units, definition, known: HashMap::new(), nodes: vec![] }
    }

    /// The number of an entry's type; 0, void, for none.
    pub fn of_typed(&mut self, entry: Entry) -> TypeId {
        self.units.type_of(entry).map_or(0, |found| self.of(found))
    }

    /// The number of a type.
    pub fn of(&mut self, entry: Entry) -> TypeId {
        let mut entry = entry;
        let die = loop {
            if let Some(known) = self.known.get(&entry) {
                return *known;
            }
            let Some(die) = self.units.die(entry) else { return 0 };
            match die.tag() {
                dw::DW_TAG_const_type
                | dw::DW_TAG_volatile_type
                | dw::DW_TAG_restrict_type
                | dw::DW_TAG_atomic_type
                | dw::DW_TAG_subrange_type => match self.units.reference(entry.unit, &die, dw::DW_AT_type) {
                    Some(inner) if inner != entry => entry = inner,
                    _ => return 0,
                },
                _ => break die,
            }
        };
        let name = || self.units.name(entry).unwrap_or_default();
        if self.nodes.len() >= MOST {
            return 0;
        }
        // Code and what has no type.
        if matches!(die.tag(), dw::DW_TAG_subroutine_type | dw::DW_TAG_unspecified_type) {
            return 0;
        }
        if self.units.flag(&die, dw::DW_AT_declaration)
            && let Some(defined) = (self.definition)(&name())
            && defined != entry
            && self.units.die(defined).is_some_and(|found| is_record(found.tag()))
        {
            let id = self.of(defined);
            self.known.insert(entry, id);
            return id;
        }
        self.nodes.push(Node::Pending);
        let id = self.nodes.len() as TypeId;
        self.known.insert(entry, id);
        let size = self.units.number(&die, dw::DW_AT_byte_size).map_or(0, |size| size.min(1 << 28) as u32);
        let node = match die.tag() {
            dw::DW_TAG_base_type => base(name(), size, self.units.number(&die, dw::DW_AT_encoding)),
            dw::DW_TAG_pointer_type | dw::DW_TAG_reference_type | dw::DW_TAG_rvalue_reference_type => {
                Node::Pointer(self.of_typed(entry))
            }
            dw::DW_TAG_typedef => Node::Typedef { name: name(), to: self.of_typed(entry) },
            dw::DW_TAG_enumeration_type => self.enumeration(entry, name(), size),
            dw::DW_TAG_array_type => self.array(entry),
            tag if is_record(tag) && self.units.flag(&die, dw::DW_AT_declaration) => {
                Node::Forward { name: name(), union: tag == dw::DW_TAG_union_type }
            }
            tag if is_record(tag) => {
                let members = self.members(entry);
                Node::Record { name: name(), union: tag == dw::DW_TAG_union_type, size, members }
            }
            // Pointers to members and what other languages have: their bytes.
            _ => Node::Array { element: self.byte(), count: size },
        };
        self.nodes[id as usize - 1] = node;
        id
    }

    fn byte(&mut self) -> TypeId {
        self.nodes.push(Node::Int { name: "unsigned char".into(), size: 1, signed: false, boolean: false });
        self.nodes.len() as TypeId
    }

    fn enumeration(&mut self, entry: Entry, name: String, size: u32) -> Node {
        let mut values = Vec::new();
        for (child, die) in self.units.children(entry) {
            if die.tag() == dw::DW_TAG_enumerator
                && let Some(value) = die.attr_value(dw::DW_AT_const_value)
            {
                let value = value.sdata_value().or_else(|| value.udata_value().map(|value| value as i64));
                values.push((self.units.name(child).unwrap_or_default(), value.unwrap_or(0)));
            }
        }
        Node::Enum { name, size: if size == 0 { 4 } else { size }, values }
    }

    fn array(&mut self, entry: Entry) -> Node {
        let element = self.of_typed(entry);
        let mut counts: Vec<u32> = Vec::new();
        for (_, die) in self.units.children(entry) {
            if die.tag() == dw::DW_TAG_subrange_type {
                let count = self.units.number(&die, dw::DW_AT_count);
                let bound =
                    || self.units.number(&die, dw::DW_AT_upper_bound).map(|last| last.wrapping_add(1));
                counts.push(count.or_else(bound).unwrap_or(0).min(1 << 28) as u32);
            }
        }
        let first = if counts.is_empty() { 0 } else { counts.remove(0) };
        // `int a[2][3]` is two arrays of three.
        let inner = counts.into_iter().rev().fold(element, |element, count| {
            self.nodes.push(Node::Array { element, count });
            self.nodes.len() as TypeId
        });
        Node::Array { element: inner, count: first }
    }

    fn members(&mut self, entry: Entry) -> Vec<Member> {
        let mut members = Vec::new();
        for (child, die) in self.units.children(entry) {
            let inherits = die.tag() == dw::DW_TAG_inheritance;
            let is_static =
                self.units.flag(&die, dw::DW_AT_external) || self.units.flag(&die, dw::DW_AT_declaration);
            if !inherits && (die.tag() != dw::DW_TAG_member || is_static) {
                continue;
            }
            let Some((bit_offset, bits)) = self.bits(child, &die) else { continue };
            let name = if inherits { String::new() } else { self.units.name(child).unwrap_or_default() };
            members.push(Member { name, type_id: self.of_typed(child), bit_offset, bits });
        }
        members
    }

    /// Where a member begins, in bits, and its width if it is a bit field. None for places that only a
    /// program could compute (virtual base classes).
    fn bits(&self, child: Entry, die: &Die<'a>) -> Option<(u32, u32)> {
        let number = |name| self.units.number(die, name);
        let start = match die.attr_value(dw::DW_AT_data_member_location) {
            None => 0,
            Some(value) => self.place(child, &value)?.checked_mul(8)?,
        };
        let bits = number(dw::DW_AT_bit_size).unwrap_or(0);
        let offset = match (number(dw::DW_AT_data_bit_offset), number(dw::DW_AT_bit_offset)) {
            (Some(offset), _) => offset,
            // DWARF 3 counts from the high end of the storage unit.
            (None, Some(high)) => {
                let declared = || {
                    let of = self.units.die(self.units.type_of(child)?)?;
                    self.units.number(&of, dw::DW_AT_byte_size)
                };
                let storage = number(dw::DW_AT_byte_size).or_else(declared)?;
                (start + storage * 8).checked_sub(high + bits)?
            }
            (None, None) => start,
        };
        Some((u32::try_from(offset).ok()?, u32::try_from(bits).ok()?))
    }

    /// A member's place in bytes; DWARF 2 has an expression that adds it.
    fn place(&self, child: Entry, value: &AttributeValue<super::Bytes<'a>>) -> Option<u64> {
        let AttributeValue::Exprloc(expression) = value else { return value.udata_value() };
        let encoding = self.units.unit(child.unit)?.encoding();
        match expression.operations(encoding).next().ok()?? {
            Operation::PlusConstant { value } => Some(value),
            _ => None,
        }
    }

    /// The blob.
    pub fn finish(mut self) -> Vec<u8> {
        let index = self.byte();
        let mut btf = BtfWriter::new();
        for node in &self.nodes {
            match node {
                Node::Int { name, size, signed, boolean: false } => btf.int(name, *size, *signed),
                Node::Int { name, size, .. } => btf.boolean(name, *size),
                Node::Float { name, size } => btf.float(name, *size),
                Node::Pointer(to) => btf.pointer(*to),
                Node::Array { element, count } => btf.array(*element, index, *count),
                Node::Record { name, union, size, members } => {
                    let members = members.iter().map(|member| BtfMember {
                        name: &member.name,
                        type_id: member.type_id,
                        bit_offset: member.bit_offset,
                        bits: member.bits,
                    });
                    btf.record(name, *union, *size, &members.collect::<Vec<_>>())
                }
                Node::Enum { name, size, values } => {
                    let values: Vec<(&str, i64)> =
                        values.iter().map(|(name, value)| (&**name, *value)).collect();
                    btf.enumeration(name, *size, &values)
                }
                Node::Typedef { name, to } => btf.typedef(name, *to),
                Node::Forward { name, union } => btf.forward(name, *union),
                Node::Pending => btf.forward("", false),
            };
        }
        btf.finish()
    }
}

fn base(name: String, size: u32, encoding: Option<u64>) -> Node {
    let encoding = encoding.and_then(|number| u8::try_from(number).ok()).map(gimli::DwAte);
    match encoding {
        Some(dw::DW_ATE_float | dw::DW_ATE_complex_float | dw::DW_ATE_decimal_float) => {
            Node::Float { name, size }
        }
        Some(dw::DW_ATE_boolean) => Node::Int { name, size, signed: false, boolean: true },
        Some(dw::DW_ATE_signed | dw::DW_ATE_signed_char) => {
            Node::Int { name, size, signed: true, boolean: false }
        }
        _ => Node::Int { name, size, signed: false, boolean: false },
    }
}

pub fn is_record(tag: DwTag) -> bool {
    matches!(tag, dw::DW_TAG_structure_type | dw::DW_TAG_class_type | dw::DW_TAG_union_type)
}

/// A value that an attribute states itself.
pub fn constant(value: &AttributeValue<super::Bytes<'_>>) -> Option<i64> {
    value.sdata_value().or_else(|| value.udata_value().map(|value| value as i64))
}
