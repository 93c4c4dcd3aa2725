//! Where parameters are when a function is entered: what the debug information says of that very address,
//! else the calling convention.

use bpf::btf::TypeId;
use gimli::{AttributeValue, Expression, Operation, constants as dw};

use super::Parameter;
use super::dwarf::{Die, Entry, Units};
use super::types::{Types, constant, is_record};
use crate::elf::{EM_AARCH64, EM_X86_64};

/// Where a value is at a function's entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In a register, by its name in `pt_regs`.
    Register(String),
    /// In memory, so many bytes above the stack pointer.
    Stack(u32),
    /// Always this.
    Constant(i64),
    /// Nowhere that a probe can read, and why.
    Unreadable(String),
}

const VECTOR: &str = "a floating-point number in a vector register, which the kernel does not show to probes";
/// Registers of x86-64 by their number in DWARF.
const X86_NAMES: [&str; 16] =
    ["ax", "dx", "cx", "bx", "si", "di", "bp", "sp", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"];
const X86_ARGUMENTS: [&str; 6] = ["di", "si", "dx", "cx", "r8", "r9"];

/// Parameters, the result's type, and whether the result is in the integer register.
pub fn parameters(
    units: &Units<'_>,
    function: Entry,
    address: u64,
    machine: u16,
    types: &mut Types<'_, '_>,
) -> Option<(Vec<Parameter>, TypeId, bool)> {
    let die = units.die(function)?;
    let mut convention = Convention::new(machine)?;
    let result = units.type_of(function);
    let result_class = result.map_or(Class::Integer(1), |result| class_of(units, result, 0));
    if result_class == Class::Memory {
        convention.hidden_result();
    }
    let mut children = parameters_of(units, function);
    if children.is_empty() {
        // An instance without parameters of its own has those of its origin.
        let origin = units.reference(function.unit, &die, dw::DW_AT_abstract_origin);
        children = origin.map_or_else(Vec::new, |origin| parameters_of(units, origin));
    }
    let mut found = Vec::new();
    for (number, (entry, die)) in children.into_iter().enumerate() {
        let class = units.type_of(entry).map_or(Class::Integer(1), |ty| class_of(units, ty, 0));
        let by_convention = convention.next(class);
        let place = match class {
            Class::Integer(_) => stated(units, entry, &die, address, machine).unwrap_or(by_convention),
            // Wherever it is, it is no number that a program could take.
            _ => by_convention,
        };
        found.push(Parameter {
            name: units.name(entry).filter(|name| !name.is_empty()).unwrap_or_else(|| format!("arg{number}")),
            type_id: types.of_typed(entry),
            place,
        });
    }
    let result = result.map_or(0, |result| types.of(result));
    Some((found, result, matches!(result_class, Class::Integer(1))))
}

fn parameters_of<'a>(units: &Units<'a>, function: Entry) -> Vec<(Entry, Die<'a>)> {
    let mut children = units.children(function);
    children.retain(|(_, die)| die.tag() == dw::DW_TAG_formal_parameter);
    children
}

/// What the debug information says of the entry address; none where only the code behind the prologue is
/// described, and then the convention holds.
fn stated(units: &Units<'_>, entry: Entry, die: &Die<'_>, address: u64, machine: u16) -> Option<Place> {
    let gone = || {
        Place::Unreadable(
            "the compiler optimised it away: no value of it exists when the function is entered".into(),
        )
    };
    if let Some(value) = die.attr_value(dw::DW_AT_const_value) {
        return constant(&value).map(Place::Constant);
    }
    let unit = units.unit(entry.unit)?;
    let location = match die.attr_value(dw::DW_AT_location) {
        Some(location) => location,
        // Unoptimised code says where everything is; optimised code leaves out what is nowhere.
        None => return Some(gone()),
    };
    if let AttributeValue::Exprloc(expression) = location {
        return place_of(&expression, unit.encoding(), machine, false);
    }
    let mut list = units.dwarf.attr_locations(unit, location).ok()??;
    let mut any = false;
    while let Ok(Some(row)) = list.next() {
        any = true;
        if (row.range.begin..row.range.end).contains(&address) {
            return Some(place_of(&row.data, unit.encoding(), machine, true).unwrap_or_else(gone));
        }
    }
    any.then(gone)
}

/// `of_entry`: the expression is for the entry address, where the frame is that of the call.
fn place_of(
    expression: &Expression<super::Bytes<'_>>,
    encoding: gimli::Encoding,
    machine: u16,
    of_entry: bool,
) -> Option<Place> {
    let mut operations = expression.operations(encoding);
    let first = operations.next().ok()??;
    let second = operations.next().ok()?;
    match (first, second) {
        (Operation::Register { register }, None) => Some(match register_name(machine, register.0) {
            Some(name) => Place::Register(name),
            None => Place::Unreadable(VECTOR.into()),
        }),
        // Before the first instruction the frame base is just above the return address.
        (Operation::FrameOffset { offset }, None) if of_entry => {
            let return_address = if machine == EM_X86_64 { 8 } else { 0 };
            u32::try_from(offset + return_address).ok().map(Place::Stack)
        }
        (Operation::UnsignedConstant { value }, Some(Operation::StackValue)) => {
            Some(Place::Constant(value as i64))
        }
        (Operation::SignedConstant { value }, Some(Operation::StackValue)) => Some(Place::Constant(value)),
        (Operation::EntryValue { expression }, _) if of_entry => {
            place_of(&Expression(expression), encoding, machine, true)
        }
        (Operation::Piece { .. }, _) | (_, Some(Operation::Piece { .. })) => {
            Some(Place::Unreadable("it is spread over several registers".into()))
        }
        _ => None,
    }
}

fn register_name(machine: u16, number: u16) -> Option<String> {
    match machine {
        EM_X86_64 => X86_NAMES.get(usize::from(number)).map(|name| (*name).to_owned()),
        EM_AARCH64 => (number < 31).then(|| format!("r{number}")),
        _ => None,
    }
}

/// How a type is passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// In so many integer registers.
    Integer(u8),
    /// In vector registers.
    Vector,
    /// A struct of integers (and floats), in so many integer registers.
    Pieces(u8),
    /// A struct on the stack or by a hidden pointer.
    Memory,
    /// `long double`: on the x87 stack or in vector registers.
    Long,
}

fn class_of(units: &Units<'_>, entry: Entry, depth: u32) -> Class {
    let Some(die) = units.die(entry).filter(|_| depth < 32) else { return Class::Integer(1) };
    let size = units.number(&die, dw::DW_AT_byte_size).unwrap_or(0);
    match die.tag() {
        dw::DW_TAG_typedef
        | dw::DW_TAG_const_type
        | dw::DW_TAG_volatile_type
        | dw::DW_TAG_atomic_type
        | dw::DW_TAG_restrict_type => {
            units.type_of(entry).map_or(Class::Integer(1), |inner| class_of(units, inner, depth + 1))
        }
        dw::DW_TAG_base_type => {
            let float = units.number(&die, dw::DW_AT_encoding) == Some(u64::from(dw::DW_ATE_float.0));
            match (float, size) {
                (true, 16) => Class::Long,
                (true, _) => Class::Vector,
                (false, 16) => Class::Integer(2),
                (false, _) => Class::Integer(1),
            }
        }
        tag if is_record(tag) => {
            let by_reference = units.number(&die, dw::DW_AT_calling_convention)
                == Some(u64::from(dw::DW_CC_pass_by_reference.0));
            if by_reference || size > 16 {
                return Class::Memory;
            }
            let mut integer = [false; 2];
            for (child, die) in units.children(entry) {
                if die.tag() != dw::DW_TAG_member && die.tag() != dw::DW_TAG_inheritance {
                    continue;
                }
                let at = units.number(&die, dw::DW_AT_data_member_location).unwrap_or(0);
                let class =
                    units.type_of(child).map_or(Class::Integer(1), |ty| class_of(units, ty, depth + 1));
                if class != Class::Vector {
                    let last = if matches!(class, Class::Pieces(2) | Class::Integer(2)) {
                        1
                    } else {
                        (at / 8).min(1)
                    };
                    integer[(at / 8).min(1) as usize] = true;
                    integer[last as usize] = true;
                }
            }
            Class::Pieces(integer.iter().filter(|used| **used).count() as u8)
        }
        dw::DW_TAG_array_type => Class::Pieces(2),
        _ => Class::Integer(1),
    }
}

/// Hands out places in the order of parameters: System V for x86-64, AAPCS64 for aarch64.
struct Convention {
    machine: u16,
    integers: usize,
    vectors: usize,
    stack: u32,
}

impl Convention {
    fn new(machine: u16) -> Option<Convention> {
        let stack = match machine {
            EM_X86_64 => 8,
            EM_AARCH64 => 0,
            _ => return None,
        };
        Some(Convention { machine, integers: 0, vectors: 0, stack })
    }

    fn registers(&self) -> usize {
        if self.machine == EM_X86_64 { X86_ARGUMENTS.len() } else { 8 }
    }

    /// A result in memory: its address is the first argument, on aarch64 in a register of its own.
    fn hidden_result(&mut self) {
        self.integers += usize::from(self.machine == EM_X86_64);
    }

    fn next(&mut self, class: Class) -> Place {
        let unreadable = |why: &str| Place::Unreadable(why.to_owned());
        match class {
            Class::Integer(count) => self.integer(count),
            Class::Vector if self.vectors < 8 => {
                self.vectors += 1;
                unreadable(VECTOR)
            }
            Class::Vector => {
                self.stack += 8;
                unreadable("a floating-point number on the stack, which programs cannot calculate with")
            }
            Class::Long => {
                self.stack += 16;
                unreadable("a long double, which no probe can read")
            }
            Class::Pieces(count) => {
                if self.integers + usize::from(count) <= self.registers() {
                    self.integers += usize::from(count);
                }
                unreadable(
                    "a struct passed by value in registers; reg(\"di\") and the like read them one by one",
                )
            }
            Class::Memory if self.machine == EM_AARCH64 => {
                self.integer(1);
                unreadable("a struct passed by value in memory")
            }
            Class::Memory => unreadable("a struct passed by value on the stack"),
        }
    }

    fn integer(&mut self, count: u8) -> Place {
        if self.integers + usize::from(count) > self.registers() {
            return self.on_stack(8 * u32::from(count));
        }
        let at = self.integers;
        self.integers += usize::from(count);
        match (count, self.machine) {
            (1, EM_X86_64) => Place::Register(X86_ARGUMENTS[at].to_owned()),
            (1, _) => Place::Register(format!("r{at}")),
            _ => Place::Unreadable("a number of 16 bytes in two registers".into()),
        }
    }

    fn on_stack(&mut self, bytes: u32) -> Place {
        let at = self.stack;
        self.stack += bytes;
        Place::Stack(at)
    }
}
