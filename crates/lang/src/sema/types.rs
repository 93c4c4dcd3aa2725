//! Names of types → [`Type`]: the language's own, the preamble's, the kernel's (BTF).

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use bpf::KernelFacts;
use bpf::btf::{Btf, Kind, KindSet, TypeId};

use crate::types::*;

/// The integer that a literal has until something decides its size: 64-bit signed, and at
/// home on either side of a sign. The mark never leaves the checker.
pub const LITERAL: Type = Type::Integer(Integer { bytes: 8, signed: true, names: Some(LITERAL_MARK) });
const LITERAL_MARK: EnumId = EnumId(u32::MAX);

/// Whether it is a literal's type.
pub fn is_literal(ty: &Type) -> bool {
    matches!(ty, Type::Integer(Integer { names: Some(LITERAL_MARK), .. }))
}

/// The type without a literal's mark, also inside tuples.
pub fn settle(ty: Type) -> Type {
    match ty {
        _ if is_literal(&ty) => Type::I64,
        Type::Tuple(fields) => {
            Type::named_tuple(fields.iter().map(|field| (field.name.clone(), settle(field.ty.clone()))))
        }
        other => other,
    }
}

/// Where a struct's members are to be had.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
enum Origin {
    /// The preamble: members are loaded.
    Text,
    /// BTF: number of the blob and type id.
    Btf(usize, TypeId),
}

/// A type or constant of the preamble.
#[derive(Default)]
pub struct Declared {
    /// `struct` and `union` by name.
    pub records: HashMap<String, RecordId>,
    /// `enum` by name.
    pub enums: HashMap<String, (EnumId, Integer)>,
    /// `typedef`.
    pub typedefs: HashMap<String, Type>,
    /// Values of enums.
    pub constants: HashMap<String, (i64, EnumId, Integer)>,
}

/// Finds types by name and members by name; keeps what it found.
pub struct Resolver<'a> {
    facts: &'a dyn KernelFacts,
    /// The kernel's BTF first, then modules as they are needed.
    blobs: RefCell<Vec<Btf>>,
    module_names: RefCell<Vec<String>>,
    table: RefCell<TypeTable>,
    origins: RefCell<Vec<Origin>>,
    by_btf: RefCell<HashMap<(usize, TypeId), RecordId>>,
    enums_by_btf: RefCell<HashMap<(usize, TypeId), EnumId>>,
    /// Names looked up in BTF before: each look-up scans its string section.
    found: RefCell<Known>,
    /// What the preamble declares.
    pub declared: RefCell<Declared>,
    /// Enums that neither BTF nor the preamble declares, by name.
    named: RefCell<HashMap<&'static str, EnumId>>,
}

/// Names that were found; what was not may still come with a module.
#[derive(Default)]
struct Known {
    records: HashMap<(String, bool), RecordRef>,
    named: HashMap<String, Type>,
    constants: HashMap<String, (i64, Type)>,
}

/// A member found in a struct.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Its type; pointers are in kernel space unless BTF says user.
    pub ty: Type,
    /// Bytes from the start.
    pub offset: u32,
    /// Set for bit fields.
    pub bits: Option<BitField>,
}

impl<'a> Resolver<'a> {
    /// A resolver over a kernel's facts.
    pub fn new(facts: &'a dyn KernelFacts) -> Resolver<'a> {
        Resolver {
            facts,
            blobs: RefCell::new(facts.btf().cloned().into_iter().collect()),
            module_names: RefCell::new(Vec::new()),
            table: RefCell::default(),
            origins: RefCell::default(),
            by_btf: RefCell::default(),
            enums_by_btf: RefCell::default(),
            found: RefCell::default(),
            declared: RefCell::default(),
            named: RefCell::default(),
        }
    }

    /// Adds a module's types, which the program names in a probe.
    pub fn add_module(&self, module: &str) -> Option<usize> {
        if let Some(at) = self.module_names.borrow().iter().position(|have| have == module) {
            return Some(at + usize::from(self.facts.btf().is_some()));
        }
        let blob = self.facts.module_btf(module)?.clone();
        self.module_names.borrow_mut().push(module.into());
        self.blobs.borrow_mut().push(blob);
        Some(self.blobs.borrow().len() - 1)
    }

    /// Adds types of an executable's debug information.
    pub fn add_types(&self, path: &str, types: Btf) -> usize {
        self.module_names.borrow_mut().push(format!("debug information of {path}"));
        self.blobs.borrow_mut().push(types);
        self.blobs.borrow().len() - 1
    }

    /// A BTF blob by number; 0 is the kernel's.
    pub fn blob(&self, number: usize) -> Option<Btf> {
        self.blobs.borrow().get(number).cloned()
    }

    /// Number of BTF blobs in use.
    pub fn blobs(&self) -> usize {
        self.blobs.borrow().len()
    }

    /// The module a blob belongs to; `vmlinux` for the kernel itself.
    pub fn module_name(&self, blob: usize) -> String {
        let first = usize::from(self.facts.btf().is_some());
        let names = self.module_names.borrow();
        blob.checked_sub(first).and_then(|at| names.get(at)).cloned().unwrap_or_else(|| "vmlinux".into())
    }

    /// Whether some BTF in use has a function of that name.
    pub fn function_exists(&self, name: &str) -> bool {
        (0..self.blobs())
            .any(|blob| self.blob(blob).is_some_and(|btf| btf.find(name, KindSet::FUNCTION).is_some()))
    }

    /// The type as programs write it.
    pub fn name(&self, ty: &Type) -> String {
        self.table.borrow().name(&settle(ty.clone()))
    }

    /// Name of a struct with its keyword.
    pub fn record_name(&self, id: RecordId) -> String {
        let table = self.table.borrow();
        let record = table.record(id);
        let keyword = if record.union { "union" } else { "struct" };
        format!("{keyword} {}", if record.name.is_empty() { "<anonymous>" } else { &record.name })
    }

    /// Adds a struct of the preamble.
    pub fn add_record(&self, record: Record) -> RecordRef {
        self.insert(record, Origin::Text)
    }

    /// Fills in a struct added before (its name was needed by its own members).
    pub fn set_record(&self, id: RecordId, record: Record) {
        self.table.borrow_mut().records[id.0 as usize] = record;
    }

    /// Adds an enum.
    pub fn add_enum(&self, found: Enumeration) -> EnumId {
        let mut table = self.table.borrow_mut();
        table.enums.push(found);
        EnumId(table.enums.len() as u32 - 1)
    }

    /// The names of numbers as an enum, made when first asked for.
    pub fn names_of(&self, name: &'static str, values: fn() -> Vec<(Rc<str>, i64)>) -> EnumId {
        if let Some(id) = self.named.borrow().get(name) {
            return *id;
        }
        let id = self.add_enum(Enumeration { name: name.into(), values: values() });
        self.named.borrow_mut().insert(name, id);
        id
    }

    fn insert(&self, record: Record, origin: Origin) -> RecordRef {
        let mut table = self.table.borrow_mut();
        let id = RecordId(table.records.len() as u32);
        let found = RecordRef { id, size: record.size, align: record.align };
        table.records.push(record);
        self.origins.borrow_mut().push(origin);
        found
    }

    /// What a struct's reference says now.
    pub fn record_ref(&self, id: RecordId) -> RecordRef {
        let table = self.table.borrow();
        let record = table.record(id);
        RecordRef { id, size: record.size, align: record.align }
    }

    /// A BTF type as a type of the language.
    pub fn type_of_btf(&self, blob: usize, id: TypeId) -> Type {
        self.type_within(blob, id, 0)
    }

    fn type_within(&self, blob: usize, id: TypeId, depth: u32) -> Type {
        let Some(btf) = self.blob(blob).filter(|_| depth < 24) else { return Type::Void };
        let named = btf.skip_qualifiers(id).map_or("", |ty| ty.name);
        let Some(ty) = btf.resolve(id) else { return Type::Void };
        match ty.kind {
            Kind::Int { boolean: true, .. } => Type::Bool,
            // Kernels since 6.2 have unsigned char; text is text all the same.
            Kind::Int { size: 1, .. } if ty.name == "char" => Type::signed(1),
            Kind::Int { size: 16, .. } => Type::Array { element: Box::new(Type::U64), count: 2 },
            Kind::Int { size, signed, .. } => {
                Type::Integer(Integer { bytes: size.clamp(1, 8) as u8, signed, names: None })
            }
            Kind::Enum { size, signed, .. } => {
                let names = Some(self.enum_of_btf(blob, ty.id));
                Type::Integer(Integer { bytes: size.clamp(1, 8) as u8, signed, names })
            }
            Kind::Pointer(to) => {
                let space = if btf.has_tag(to, "user") { Space::User } else { Space::Kernel };
                Type::pointer(self.type_within(blob, to, depth + 1), space)
            }
            Kind::Array { element, count } => {
                Type::Array { element: Box::new(self.type_within(blob, element, depth + 1)), count }
            }
            Kind::Struct { size, .. } => {
                Type::Record(self.record_of_btf(blob, ty.id, ty.name, named, false, size))
            }
            Kind::Union { size, .. } => {
                Type::Record(self.record_of_btf(blob, ty.id, ty.name, named, true, size))
            }
            Kind::Float { size } => Type::Array { element: Box::new(Type::unsigned(1)), count: size },
            // Declared only: nothing in it can be used, but pointers to it keep its name.
            Kind::Forward { union } => {
                Type::Record(self.record_of_btf(blob, ty.id, ty.name, named, union, 0))
            }
            _ => Type::Void,
        }
    }

    fn record_of_btf(
        &self,
        blob: usize,
        id: TypeId,
        name: &str,
        typedef: &str,
        union: bool,
        size: u32,
    ) -> RecordRef {
        // A module's numbers below its first are the kernel's own types.
        let blob = if self.blob(blob).is_some_and(|btf| id < btf.type_start()) { 0 } else { blob };
        if let Some(known) = self.by_btf.borrow().get(&(blob, id)) {
            return self.record_ref(*known);
        }
        let name = if name.is_empty() { typedef } else { name };
        // BTF has no alignment; the size bounds it, and layouts of the language only need that much.
        let align = 1 << size.trailing_zeros().min(3);
        let record = Record { name: name.into(), union, size, align, fields: Vec::new() };
        let found = self.insert(record, Origin::Btf(blob, id));
        self.by_btf.borrow_mut().insert((blob, id), found.id);
        found
    }

    fn enum_of_btf(&self, blob: usize, id: TypeId) -> EnumId {
        if let Some(known) = self.enums_by_btf.borrow().get(&(blob, id)) {
            return *known;
        }
        let btf = self.blob(blob).expect("the blob was just read");
        let name = btf.get(id).map_or("", |ty| ty.name);
        let values = btf.enumerators(id).iter().map(|one| (Rc::from(one.name), one.value)).collect();
        let known = self.add_enum(Enumeration { name: name.into(), values });
        self.enums_by_btf.borrow_mut().insert((blob, id), known);
        known
    }

    /// BTF id of a struct that came from the kernel's own BTF.
    pub fn btf_id(&self, id: RecordId) -> Option<(usize, TypeId)> {
        match self.origins.borrow()[id.0 as usize] {
            Origin::Btf(blob, id) => Some((blob, id)),
            Origin::Text => None,
        }
    }

    /// A member by name, anonymous members passed through.
    pub fn field(&self, record: RecordId, name: &str) -> Option<Found> {
        let origin = self.origins.borrow()[record.0 as usize];
        match origin {
            Origin::Btf(blob, id) => {
                let btf = self.blob(blob)?;
                // A struct that is declared in this place and defined elsewhere.
                let id = self.defined(&btf, id)?;
                let at = btf.field(id, name)?;
                let ty = self.type_of_btf(blob, at.type_id);
                Some(placed(ty, at.bit_offset, at.bit_size))
            }
            Origin::Text => self.text_field(record, name, 0),
        }
    }

    fn defined(&self, btf: &Btf, id: TypeId) -> Option<TypeId> {
        match btf.resolve(id)?.kind {
            Kind::Forward { .. } => btf.find(btf.get(id)?.name, KindSet::STRUCT.or(KindSet::UNION)),
            _ => Some(id),
        }
    }

    fn text_field(&self, record: RecordId, name: &str, depth: u32) -> Option<Found> {
        let fields = self.table.borrow().record(record).fields.clone();
        for field in &fields {
            if &*field.name == name {
                return Some(Found { ty: field.ty.clone(), offset: field.offset, bits: field.bits });
            }
            if let (true, Type::Record(inner)) = (field.name.is_empty() && depth < 16, &field.ty) {
                let found = match self.origins.borrow()[inner.id.0 as usize] {
                    Origin::Text => None,
                    Origin::Btf(..) => Some(()),
                };
                let found = match found {
                    Some(()) => self.field(inner.id, name),
                    None => self.text_field(inner.id, name, depth + 1),
                };
                if let Some(mut found) = found {
                    found.offset += field.offset;
                    return Some(found);
                }
            }
        }
        None
    }

    /// Names of all members, for "did you mean".
    pub fn field_names(&self, record: RecordId) -> Vec<String> {
        let origin = self.origins.borrow()[record.0 as usize];
        match origin {
            Origin::Btf(blob, id) => {
                let Some(btf) = self.blob(blob) else { return Vec::new() };
                let id = self.defined(&btf, id).unwrap_or(id);
                btf.field_names(id).into_iter().map(String::from).collect()
            }
            Origin::Text => {
                let fields = self.table.borrow().record(record).fields.clone();
                let mut names = Vec::new();
                for field in fields {
                    match (&field.ty, field.name.is_empty()) {
                        (Type::Record(inner), true) => names.extend(self.field_names(inner.id)),
                        _ => names.push(field.name.to_string()),
                    }
                }
                names
            }
        }
    }

    /// Loads the members of a struct (and of structs within it), which printing needs.
    pub fn load(&self, ty: &Type) {
        match ty {
            Type::Array { element, .. } => self.load(element),
            Type::Tuple(fields) => fields.iter().for_each(|field| self.load(&field.ty)),
            Type::Record(record) => self.load_record(record.id, 0),
            _ => {}
        }
    }

    fn load_record(&self, id: RecordId, depth: u32) {
        let Origin::Btf(blob, btf_id) = self.origins.borrow()[id.0 as usize] else { return };
        if depth > 16 || !self.table.borrow().record(id).fields.is_empty() {
            return;
        }
        let Some(btf) = self.blob(blob) else { return };
        let Some(ty) = self.defined(&btf, btf_id).and_then(|id| btf.resolve(id)) else { return };
        let (Kind::Struct { members, .. } | Kind::Union { members, .. }) = ty.kind else { return };
        let mut fields = Vec::new();
        for member in members {
            let ty = self.type_of_btf(blob, member.type_id);
            let found = placed(ty, member.bit_offset, member.bit_size);
            fields.push(Field {
                name: member.name.into(),
                ty: found.ty,
                offset: found.offset,
                bits: found.bits,
                data_loc: None,
                user: false,
            });
        }
        let inner: Vec<Type> = fields.iter().map(|field| field.ty.clone()).collect();
        self.table.borrow_mut().records[id.0 as usize].fields = fields;
        for ty in inner {
            match ty {
                Type::Record(record) => self.load_record(record.id, depth + 1),
                Type::Array { element, .. } => {
                    if let Type::Record(record) = *element {
                        self.load_record(record.id, depth + 1);
                    }
                }
                _ => {}
            }
        }
    }

    /// `struct NAME` or `union NAME`: the preamble's, else the kernel's, else a module's in use.
    pub fn record(&self, name: &str, union: bool) -> Option<RecordRef> {
        if let Some(id) = self.declared.borrow().records.get(name) {
            return Some(self.record_ref(*id));
        }
        let key = (name.to_string(), union);
        if let Some(known) = self.found.borrow().records.get(&key) {
            return Some(*known);
        }
        let kinds = if union { KindSet::UNION } else { KindSet::STRUCT };
        for blob in 0..self.blobs() {
            if let Some(id) = self.blob(blob).and_then(|btf| btf.find(name, kinds))
                && let Type::Record(record) = self.type_of_btf(blob, id)
            {
                self.found.borrow_mut().records.insert(key, record);
                return Some(record);
            }
        }
        None
    }

    /// `enum NAME`.
    pub fn enumeration(&self, name: &str) -> Option<Type> {
        if let Some((id, integer)) = self.declared.borrow().enums.get(name) {
            return Some(Type::Integer(Integer { names: Some(*id), ..*integer }));
        }
        (0..self.blobs()).find_map(|blob| {
            let id = self.blob(blob)?.find(name, KindSet::ENUM)?;
            Some(self.type_of_btf(blob, id))
        })
    }

    /// A type by a bare name: the language's own, C's, a typedef.
    pub fn named(&self, name: &str) -> Option<Type> {
        if let Some(ty) = self.declared.borrow().typedefs.get(name) {
            return Some(ty.clone());
        }
        if let Some(ty) = own_type(name) {
            return Some(ty);
        }
        if let Some(ty) = self.found.borrow().named.get(name) {
            return Some(ty.clone());
        }
        let kinds = KindSet::TYPEDEF.or(KindSet::INT);
        let ty = (0..self.blobs()).find_map(|blob| {
            let id = self.blob(blob)?.find(name, kinds)?;
            match self.type_of_btf(blob, id) {
                Type::Void => None,
                ty => Some(ty),
            }
        })?;
        self.found.borrow_mut().named.insert(name.into(), ty.clone());
        Some(ty)
    }

    /// A struct by its bare name, `task_struct` for `struct task_struct`, where nothing else has that name.
    pub fn bare_record(&self, name: &str) -> Option<Type> {
        self.record(name, false).or_else(|| self.record(name, true)).map(Type::Record)
    }

    /// The value of an enumerator of the preamble.
    pub fn declared_constant(&self, name: &str) -> Option<(i64, Type)> {
        let declared = self.declared.borrow();
        let (value, id, integer) = declared.constants.get(name)?;
        Some((*value, Type::Integer(Integer { names: Some(*id), ..*integer })))
    }

    /// The value of an enumerator, of the preamble or the kernel.
    pub fn constant(&self, name: &str) -> Option<(i64, Type)> {
        if let Some(found) = self.declared_constant(name) {
            return Some(found);
        }
        if let Some(found) = self.found.borrow().constants.get(name) {
            return Some(found.clone());
        }
        let found = (0..self.blobs()).find_map(|blob| {
            let (id, value) = self.blob(blob)?.enumerator(name)?;
            Some((value, self.type_of_btf(blob, id)))
        })?;
        self.found.borrow_mut().constants.insert(name.into(), found.clone());
        Some(found)
    }

    /// The types for the schema.
    pub fn into_table(self) -> TypeTable {
        self.table.into_inner()
    }
}

/// A member at a bit offset: bit fields become an integer to load, a shift and a width.
pub fn placed(ty: Type, bit_offset: u32, bit_size: u32) -> Found {
    if bit_size == 0 {
        return Found { ty, offset: bit_offset / 8, bits: None };
    }
    let (mut bytes, signed) = match &ty {
        Type::Integer(integer) => (u32::from(integer.bytes), integer.signed),
        _ => (1, false),
    };
    let mut offset = bit_offset / 8 / bytes * bytes;
    // In packed structs a field may cross its own type's boundary.
    while bit_offset + bit_size > (offset + bytes) * 8 && bytes < 8 {
        bytes *= 2;
        offset = bit_offset / 8 / bytes * bytes;
    }
    if bit_offset + bit_size > (offset + bytes) * 8 {
        offset = bit_offset / 8;
    }
    let names = ty.integer().and_then(|integer| integer.names);
    let ty = Type::Integer(Integer { bytes: bytes as u8, signed, names });
    let bits = BitField { shift: (bit_offset - offset * 8) as u8, bits: bit_size as u8 };
    Found { ty, offset, bits: Some(bits) }
}

/// Types that have a name without any kernel.
fn own_type(name: &str) -> Option<Type> {
    Some(match name {
        "void" => Type::Void,
        "bool" | "_Bool" => Type::Bool,
        "uint8" | "u8" | "__u8" | "uint8_t" | "unsigned char" => Type::unsigned(1),
        "uint16" | "u16" | "__u16" | "uint16_t" | "unsigned short" | "ushort" | "__be16" | "__le16"
        | "umode_t" => Type::unsigned(2),
        "uint32" | "u32" | "__u32" | "uint32_t" | "unsigned int" | "uint" | "__be32" | "__le32" | "uid_t"
        | "gid_t" | "dev_t" | "gfp_t" | "mode_t" | "socklen_t" => Type::unsigned(4),
        "uint64" | "u64" | "__u64" | "uint64_t" | "unsigned long" | "ulong" | "__be64" | "__le64"
        | "size_t" | "uintptr_t" | "sector_t" | "ino_t" => Type::U64,
        "int8" | "s8" | "__s8" | "int8_t" | "char" | "signed char" => Type::signed(1),
        "int16" | "s16" | "__s16" | "int16_t" | "short" => Type::signed(2),
        "int32" | "s32" | "__s32" | "int32_t" | "int" | "pid_t" | "key_t" | "clockid_t" => Type::signed(4),
        "int64" | "s64" | "__s64" | "int64_t" | "long" | "ssize_t" | "off_t" | "loff_t" | "time_t"
        | "intptr_t" => Type::I64,
        "__int128" | "unsigned __int128" => Type::Array { element: Box::new(Type::U64), count: 2 },
        "float" => Type::Array { element: Box::new(Type::unsigned(1)), count: 4 },
        "double" => Type::Array { element: Box::new(Type::unsigned(1)), count: 8 },
        "inet" => Type::Inet,
        "macaddr_t" => Type::MacAddress,
        "ksym_t" => Type::KernelSymbol,
        "usym_t" => Type::UserSymbol,
        "timestamp" => Type::Timestamp,
        "cgroup_path_t" => Type::CgroupPath,
        "strerror_t" => Type::ErrorText,
        "username_t" => Type::UserName,
        "kstack_t" => Type::Stack(Stack { user: false, mode: StackMode::Bpftrace, limit: 127 }),
        "ustack_t" => Type::Stack(Stack { user: true, mode: StackMode::Bpftrace, limit: 127 }),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bit_fields_become_a_load_a_shift_and_a_width() {
        let field = |ty, at, bits| {
            let found = placed(ty, at, bits);
            (found.ty.size(), found.offset, found.bits)
        };
        assert_eq!(field(Type::U32, 64, 0), (4, 8, None));
        assert_eq!(field(Type::U32, 67, 5), (4, 8, Some(BitField { shift: 3, bits: 5 })));
        assert_eq!(field(Type::unsigned(1), 71, 1), (1, 8, Some(BitField { shift: 7, bits: 1 })));
        // Across a byte: the load is widened.
        assert_eq!(field(Type::unsigned(1), 70, 4), (2, 8, Some(BitField { shift: 6, bits: 4 })));
    }
}
