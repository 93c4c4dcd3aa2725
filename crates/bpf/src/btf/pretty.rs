//! C names of types, for messages and listings.

use super::types::Kind;
use super::{Btf, TypeId};

impl Btf {
    /// The type as C spells it in a cast: `struct task_struct *`, `const char *`, `int (*)(void *)`,
    /// `unsigned long[4]`.
    pub fn type_name(&self, id: TypeId) -> String {
        self.declare(id, "")
    }

    /// A declaration: `int *x`, `char comm[16]`, `void (*func)(struct timer_list *)`.
    pub fn declaration(&self, id: TypeId, name: &str) -> String {
        self.declare(id, name)
    }

    fn declare(&self, id: TypeId, name: &str) -> String {
        let mut inner = name.to_string();
        let mut qualifiers = String::new();
        let mut id = id;
        let mut inner_is_pointer = false;
        for _ in 0..32 {
            let Some(found) = self.get(id) else { break };
            match found.kind {
                Kind::Const(to) | Kind::Volatile(to) => {
                    let word = if matches!(found.kind, Kind::Const(_)) { "const " } else { "volatile " };
                    let pointer = matches!(self.skip_qualifiers(to).map(|t| t.kind), Some(Kind::Pointer(_)));
                    if pointer {
                        inner = format!("{word}{inner}").trim_end().to_string();
                    } else {
                        qualifiers.push_str(word);
                    }
                    id = to;
                }
                Kind::Restrict(to) | Kind::TypeTag(to) => id = to,
                Kind::Pointer(to) => {
                    let joined =
                        !inner.is_empty() && inner.starts_with(|c: char| c.is_alphabetic()) && inner != name;
                    inner = if joined { format!("* {inner}") } else { format!("*{inner}") };
                    inner_is_pointer = true;
                    id = to;
                }
                Kind::Array { element, count } => {
                    if inner_is_pointer {
                        inner = format!("({inner})");
                        inner_is_pointer = false;
                    }
                    inner =
                        format!("{inner}[{}]", if count == 0 { String::new() } else { count.to_string() });
                    id = element;
                }
                Kind::Prototype { result, parameters } => {
                    let list: Vec<String> =
                        parameters
                            .map(|p| {
                                if p.type_id == 0 {
                                    "...".to_string()
                                } else {
                                    self.declare(p.type_id, p.name)
                                }
                            })
                            .collect();
                    if inner_is_pointer {
                        inner = format!("({inner})");
                        inner_is_pointer = false;
                    }
                    inner = format!("{inner}({})", list.join(", "));
                    id = result;
                }
                _ => break,
            }
        }
        let Some(found) = self.get(id) else { return format!("{qualifiers}?{inner}") };
        let name = if found.name.is_empty() { "(anonymous)" } else { found.name };
        let head = match found.kind {
            Kind::Struct { .. } | Kind::Forward { union: false } => format!("struct {name}"),
            Kind::Union { .. } | Kind::Forward { union: true } => format!("union {name}"),
            Kind::Enum { .. } => format!("enum {name}"),
            Kind::Void => "void".to_string(),
            _ => name.to_string(),
        };
        let gap = if inner.is_empty() || inner.starts_with('[') { "" } else { " " };
        format!("{qualifiers}{head}{gap}{inner}")
    }

    /// A function as a prototype: `int vfs_open(const struct path *path, struct file *file)`.
    pub fn prototype(&self, function: TypeId) -> Option<String> {
        let found = self.get(function)?;
        let Kind::Function { prototype } = found.kind else { return None };
        Some(self.declare(prototype, found.name))
    }
}
