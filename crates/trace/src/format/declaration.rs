//! The text of a `format` file → [`EventFormat`].

use super::{EventFormat, Field, FieldShape, ctype::CType};

/// Why a `format` file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("format of {event}: line {line}: {reason}")]
pub struct FormatError {
    /// The event's name as far as known.
    pub event: String,
    /// Line, counted from 1.
    pub line: usize,
    /// What is wrong there.
    pub reason: String,
}

/// More fields than this are refused: no kernel event has a tenth of it.
const MOST_FIELDS: usize = 4096;

pub(super) fn parse(system: &str, text: &str) -> Result<EventFormat, FormatError> {
    let mut format = EventFormat {
        system: system.to_owned(),
        name: String::new(),
        id: 0,
        fields: Vec::new(),
        print_fmt: String::new(),
    };
    let mut id = None;
    let mut rest = text;
    let mut line_number = 0;
    while !rest.is_empty() {
        line_number += 1;
        let (line, after) = rest.split_once('\n').unwrap_or((rest, ""));
        let wrong =
            |event: &str, reason: String| FormatError { event: event.to_owned(), line: line_number, reason };
        let line = line.trim();
        if let Some(name) = line.strip_prefix("name:") {
            format.name = name.trim().to_owned();
        } else if let Some(number) = line.strip_prefix("ID:") {
            let number = number.trim();
            id = Some(number.parse::<u16>().map_err(|_| {
                wrong(&format.name, format!("the ID {number:?} is not a number from 0 to 65535"))
            })?);
        } else if line.starts_with("field:") || line.starts_with("field ") {
            if format.fields.len() == MOST_FIELDS {
                return Err(wrong(&format.name, format!("more than {MOST_FIELDS} fields")));
            }
            format.fields.push(field(line).map_err(|reason| wrong(&format.name, reason))?);
        } else if line.starts_with("print fmt:") {
            // It is the last; text constants in it may, in made-up files, hold newlines.
            format.print_fmt = rest.trim_start()["print fmt:".len()..].trim().to_owned();
            break;
        }
        rest = after;
    }
    let whole = |reason: &str| FormatError {
        event: format.name.clone(),
        line: line_number,
        reason: reason.to_owned(),
    };
    if format.name.is_empty() {
        return Err(whole("no line `name:`"));
    }
    format.id = id.ok_or_else(|| whole("no line `ID:`"))?;
    Ok(format)
}

/// One line `field:TYPE NAME; offset:O; size:S; signed:G;`, separated by tabs.
fn field(line: &str) -> Result<Field, String> {
    // Until 2.6.31 there was `field special:`, for text.
    let (_, rest) = line.split_once(':').ok_or("`field` without a colon")?;
    let (declaration, rest) =
        rest.split_once(';').ok_or("a field's declaration does not end with a semicolon")?;
    let mut offset = None;
    let mut size = None;
    let mut signed = None;
    for part in rest.split(';') {
        let Some((key, value)) = part.trim().split_once(':') else { continue };
        let value = value.trim();
        let number = || value.parse::<u32>().map_err(|_| format!("{key} {value:?} is not a number"));
        match key.trim() {
            "offset" => offset = Some(number()?),
            "size" => size = Some(number()?),
            "signed" => signed = Some(number()? != 0),
            _ => {}
        }
    }
    let offset = offset.ok_or("a field without offset")?;
    let size = size.ok_or("a field without size")?;
    if offset.checked_add(size).is_none_or(|end| end > 1 << 20) {
        return Err(format!("a field at offset {offset} of {size} bytes: no record is that long"));
    }
    let declared = declare(declaration.trim())?;
    let c_type = CType::parse_words(&declared.type_name);
    let shape = match declared.shape {
        Declared::DataLoc => FieldShape::DataLoc,
        Declared::RelLoc => FieldShape::RelLoc,
        // Kernels have declared the flexible array of `print` also as `char buf`, 0 bytes.
        Declared::One | Declared::Array { .. } if size == 0 => FieldShape::Array { length: 0 },
        Declared::One => FieldShape::Scalar,
        Declared::Array { length } => {
            // The length may be a name or an expression the kernel has not resolved
            // (`TASK_COMM_LEN`, `sizeof(struct sockaddr_in6)`): then the sizes tell.
            let by_type = c_type
                .pointed_size(8)
                .filter(|bytes| *bytes > 0 && size % bytes == 0)
                .map(|bytes| size / bytes);
            let length =
                length.filter(|length| *length > 0 && size % length == 0).or(by_type).unwrap_or(size);
            FieldShape::Array { length }
        }
    };
    if matches!(shape, FieldShape::DataLoc | FieldShape::RelLoc) && size != 4 && size != 8 {
        return Err(format!("the dynamic field {:?} has {size} bytes instead of 4", declared.name));
    }
    let name = declared.name;
    Ok(Field {
        common: name.starts_with("common_"),
        name,
        signed: signed.unwrap_or(c_type.signed && c_type.pointers == 0),
        type_name: declared.type_name,
        offset,
        size,
        shape,
    })
}

struct Declaration {
    name: String,
    type_name: String,
    shape: Declared,
}

enum Declared {
    One,
    Array { length: Option<u32> },
    DataLoc,
    RelLoc,
}

/// Splits a C declaration into type, name and array length.
fn declare(text: &str) -> Result<Declaration, String> {
    let (text, dynamic) = if let Some(rest) = text.strip_prefix("__data_loc ") {
        (rest.trim(), Some(Declared::DataLoc))
    } else if let Some(rest) = text.strip_prefix("__rel_loc ") {
        (rest.trim(), Some(Declared::RelLoc))
    } else {
        (text, None)
    };
    let no_name = || format!("no field name in {text:?}");

    // A pointer to a function: `void (*name)(int)`; the name is inside.
    if let Some(star) = text.find("(*")
        && dynamic.is_none()
    {
        let inner = &text[star + 2..];
        let name: String = inner.trim_start().chars().take_while(|c| is_word(*c)).collect();
        if !name.is_empty() {
            let type_name = text.replacen(name.as_str(), "", 1);
            return Ok(Declaration { name, type_name, shape: Declared::One });
        }
    }

    // The name is the last word outside brackets; arrays follow it, or, for dynamic
    // fields, follow the type: `__data_loc char[] name`.
    let mut depth = 0usize;
    let mut end = text.len();
    let mut first_bracket = None;
    let mut last_bracket = None;
    for (at, c) in text.char_indices().rev() {
        match c {
            ']' | ')' => {
                depth += 1;
                if c == ']' && last_bracket.is_none() {
                    last_bracket = Some(at);
                }
            }
            '[' | '(' => {
                depth = depth.saturating_sub(1);
                if c == '[' {
                    first_bracket = Some(at);
                    end = at;
                }
            }
            c if depth == 0 && !c.is_whitespace() => break,
            _ => {}
        }
    }
    let head = text[..end].trim_end();
    let name_start = head
        .rfind(|c: char| !is_word(c))
        .map_or(0, |at| at + head[at..].chars().next().map_or(1, char::len_utf8));
    let name = &head[name_start..];
    if name.is_empty() {
        return Err(no_name());
    }
    let type_name = head[..name_start].trim();
    let length = match (first_bracket, last_bracket) {
        (Some(from), Some(to)) if from < to => Some(product(&text[from..=to])),
        _ => None,
    };
    let type_name = match type_name.rfind('[') {
        Some(bracket) if type_name.ends_with(']') => type_name[..bracket].trim_end(),
        _ => type_name,
    };
    let shape = match (dynamic, length) {
        (Some(dynamic), _) => dynamic,
        (None, Some(length)) => Declared::Array { length },
        (None, None) => Declared::One,
    };
    Ok(Declaration { name: name.to_owned(), type_name: type_name.to_owned(), shape })
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// `[2][3]` → 6; `None` where a length is not a plain number.
fn product(brackets: &str) -> Option<u32> {
    let mut product = 1u32;
    for part in brackets.split(']') {
        let number = part.trim().trim_start_matches('[').trim();
        if part.trim().is_empty() {
            continue;
        }
        product = product.checked_mul(number.parse().ok()?)?;
    }
    Some(product)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(line: &str) -> String {
        match field(line) {
            Ok(f) => format!("{} | {} | {:?} signed={}", f.type_name, f.name, f.shape, f.signed),
            Err(reason) => format!("error: {reason}"),
        }
    }

    #[test]
    fn declarations_as_kernels_write_them() {
        for (declaration, size, expected) in [
            ("unsigned short common_type", 2, "unsigned short | common_type | Scalar signed=false"),
            ("char prev_comm[16]", 16, "char | prev_comm | Array { length: 16 } signed=true"),
            ("char comm[TASK_COMM_LEN]", 16, "char | comm | Array { length: 16 } signed=true"),
            (
                "__u8 saddr[sizeof(struct sockaddr_in6)]",
                28,
                "__u8 | saddr | Array { length: 28 } signed=false",
            ),
            ("unsigned long args[6]", 48, "unsigned long | args | Array { length: 6 } signed=false"),
            ("u16 grid[2][3]", 12, "u16 | grid | Array { length: 6 } signed=false"),
            ("char buf[]", 0, "char | buf | Array { length: 0 } signed=true"),
            ("char buf", 0, "char | buf | Array { length: 0 } signed=true"),
            ("__data_loc char[] name", 4, "char | name | DataLoc signed=true"),
            ("__rel_loc unsigned long[] mask", 4, "unsigned long | mask | RelLoc signed=false"),
            ("__data_loc cpumask_t mask", 4, "cpumask_t | mask | DataLoc signed=true"),
            ("__data_loc u8[16] name", 4, "u8 | name | DataLoc signed=false"),
            ("const char * fmt", 8, "const char * | fmt | Scalar signed=false"),
            ("const char *fmt", 8, "const char * | fmt | Scalar signed=false"),
            (
                "void (*callback)(struct rcu_head *)",
                8,
                "void (*)(struct rcu_head *) | callback | Scalar signed=false",
            ),
            (
                "struct foo __attribute__((user)) * p",
                8,
                "struct foo __attribute__((user)) * | p | Scalar signed=false",
            ),
            ("unsigned long long  x", 8, "unsigned long long | x | Scalar signed=false"),
            ("__data_loc char[] 1", 4, "char | 1 | DataLoc signed=true"),
            ("", 4, "error: no field name in \"\""),
            ("int *", 4, "error: no field name in \"int *\""),
        ] {
            assert_eq!(
                shown(&format!("field:{declaration};\toffset:8;\tsize:{size};")),
                expected,
                "{declaration}"
            );
        }
    }

    #[test]
    fn errors_name_line_and_reason() {
        let error = |text: &str| parse("s", text).unwrap_err().to_string();
        assert_eq!(error(""), "format of : line 0: no line `name:`");
        assert_eq!(error("name: x\n"), "format of x: line 1: no line `ID:`");
        assert_eq!(
            error("name: x\nID: 70000\n"),
            "format of x: line 2: the ID \"70000\" is not a number from 0 to 65535"
        );
        assert_eq!(
            error("name: x\nID: 7\nformat:\n\tfield:int a;\toffset:4294967295;\tsize:4;\n"),
            "format of x: line 4: a field at offset 4294967295 of 4 bytes: no record is that long"
        );
    }
}
