//! Records → text, by their print format.

use super::{
    EventFormat, Field, FieldShape,
    evaluate::{Scope, What, constant},
    expression::{self, Expr},
    lookup::{NoLookup, PrintLookup},
    printf::{Amount, Conversion, Length, Setting, Template},
    token::{Token, tokens},
    value::{Int, Value},
};
use crate::Endian;

/// A print format, ready to print many records.
#[derive(Clone, Debug)]
pub struct Printer {
    fields: Vec<Field>,
    endian: Endian,
    long_size: u8,
    how: How,
}

#[derive(Clone, Debug)]
enum How {
    Format(Bound),
    /// `bprint`: the record holds a format's address and its arguments; positions of
    /// the fields `ip`, `fmt`, `buf`.
    Binary {
        ip: usize,
        format: usize,
        arguments: usize,
    },
    /// No print format, or one that is not understood: all fields, by name.
    Fields,
}

/// A template with an expression for each `*` and each conversion.
#[derive(Clone, Debug)]
struct Bound {
    template: Template,
    /// For each piece: width, precision, value; `None` where there is none or it could
    /// not be parsed.
    arguments: Vec<[Option<Expr>; 3]>,
}

impl Bound {
    fn new(format: &EventFormat) -> Option<Bound> {
        let tokens = tokens(&format.print_fmt).ok()?;
        let mut text = Vec::new();
        let mut rest = &tokens[..];
        // The whole may stand in brackets.
        while let [Token::Mark("("), inner @ .., Token::Mark(")")] = rest
            && matches!(inner.first(), Some(Token::Text(_)))
        {
            rest = inner;
        }
        let mut any = false;
        while let [Token::Text(part), more @ ..] = rest {
            text.extend_from_slice(part);
            rest = more;
            any = true;
        }
        if !any {
            return None;
        }
        let arguments = match rest {
            [] => Vec::new(),
            [Token::Mark(","), arguments @ ..] => expression::arguments(arguments, format, constant),
            _ => return None,
        };
        let template = Template::parse(&text);
        let mut next = arguments.into_iter();
        let mut next = || next.next().flatten();
        let arguments = template
            .pieces
            .iter()
            .map(|piece| {
                let width = if piece.conversion.width == Amount::Argument { next() } else { None };
                let precision = if piece.conversion.precision == Amount::Argument { next() } else { None };
                [width, precision, next()]
            })
            .collect();
        Some(Bound { template, arguments })
    }

    /// `None` if a value cannot be had.
    fn print(&self, out: &mut Vec<u8>, scope: &Scope<'_>, setting: &Setting<'_>) -> Option<()> {
        for (piece, arguments) in self.template.pieces.iter().zip(&self.arguments) {
            out.extend_from_slice(&piece.literal);
            convert(out, &piece.conversion, arguments, scope, setting)?;
        }
        out.extend_from_slice(&self.template.tail);
        Some(())
    }
}

fn convert(
    out: &mut Vec<u8>,
    conversion: &Conversion,
    [width, precision, value]: &[Option<Expr>; 3],
    scope: &Scope<'_>,
    setting: &Setting<'_>,
) -> Option<()> {
    let amount = |expr: &Option<Expr>| expr.as_ref().and_then(|e| scope.int(e)).map(|int| int.bits as i64);
    let value = scope.value(value.as_ref()?)?;
    conversion.print(out, &value, amount(width), amount(precision), setting).then_some(())
}

impl Printer {
    pub(super) fn new(format: &EventFormat, endian: Endian, long_size: u8) -> Printer {
        let position = |name: &str| format.fields.iter().position(|field| field.name == name);
        let how = match (format.name.as_str(), position("ip"), position("fmt"), position("buf")) {
            ("bprint", Some(ip), Some(format), Some(arguments)) => How::Binary { ip, format, arguments },
            _ => Bound::new(format).map_or(How::Fields, How::Format),
        };
        Printer { fields: format.fields.clone(), endian, long_size, how }
    }

    /// Whether the print format is understood in all its parts (records are printed field
    /// by field otherwise).
    pub fn is_understood(&self) -> bool {
        match &self.how {
            How::Format(bound) => bound.arguments.iter().all(|[_, _, value]| value.is_some()),
            How::Binary { .. } => true,
            How::Fields => false,
        }
    }

    /// Appends the text of `record` to `out`. What the format cannot say of this record
    /// (too short, a value that the trace does not hold) is said field by field.
    pub fn print(&self, record: &[u8], lookup: &dyn PrintLookup, out: &mut Vec<u8>) {
        let scope = self.scope(record);
        let setting = Setting { endian: self.endian, long_size: self.long_size, lookup };
        let start = out.len();
        let printed = match &self.how {
            How::Format(bound) => bound.print(out, &scope, &setting),
            How::Binary { ip, format, arguments } => {
                self.print_binary(out, record, [*ip, *format, *arguments], &setting)
            }
            How::Fields => None,
        };
        if printed.is_none() {
            out.truncate(start);
            self.print_fields(record, out);
        }
    }

    /// The text of `record`.
    pub fn text(&self, record: &[u8]) -> String {
        let mut out = Vec::new();
        self.print(record, &NoLookup, &mut out);
        String::from_utf8_lossy(&out).into_owned()
    }

    fn scope<'a>(&'a self, record: &'a [u8]) -> Scope<'a> {
        Scope {
            fields: &self.fields,
            what: What::Record(record),
            endian: self.endian,
            long_size: self.long_size,
        }
    }

    /// Appends `name=value` for all fields that are not common.
    fn print_fields(&self, record: &[u8], out: &mut Vec<u8>) {
        let mut separator = "";
        for field in self.fields.iter().filter(|field| !field.common) {
            out.extend_from_slice(separator.as_bytes());
            out.extend_from_slice(field.name.as_bytes());
            out.push(b'=');
            separator = " ";
            match field.value(record, self.endian, self.long_size) {
                None => out.extend_from_slice(b"(cut)"),
                Some(Value::Int(int)) if field.signed => {
                    out.extend_from_slice((int.bits as i64).to_string().as_bytes())
                }
                Some(Value::Int(int)) if field.type_name.contains('*') => {
                    out.extend_from_slice(format!("{:#x}", int.bits).as_bytes());
                }
                Some(Value::Int(int)) => out.extend_from_slice(int.bits.to_string().as_bytes()),
                Some(Value::Region(region)) if field.is_text() => out.extend_from_slice(region.text()),
                Some(Value::Region(region)) => {
                    let most = if field.shape == (FieldShape::Array { length: 0 }) { 64 } else { 4096 };
                    let count = (region.bytes.len() / region.element_size.max(1) as usize).min(most);
                    out.push(b'{');
                    for at in 0..count {
                        let comma = if at > 0 { "," } else { "" };
                        match region.element(at as u64, self.endian) {
                            Some(int) => out.extend_from_slice(format!("{comma}{:#x}", int.bits).as_bytes()),
                            None => break,
                        }
                    }
                    out.push(b'}');
                }
                Some(Value::Text(text)) => out.extend_from_slice(&text),
            }
        }
    }

    /// `trace_printk` with a constant format: `vbin_printf` has laid the arguments out
    /// in words of 4 bytes, 64-bit values aligned to 4, texts in place.
    fn print_binary(
        &self,
        out: &mut Vec<u8>,
        record: &[u8],
        [ip, format, arguments]: [usize; 3],
        setting: &Setting<'_>,
    ) -> Option<()> {
        let int = |field: usize| match self.fields.get(field)?.value(record, self.endian, self.long_size)? {
            Value::Int(int) => Some(int.bits),
            _ => None,
        };
        let text = setting.lookup.string_at(int(format)?)?;
        let (ip, buffer) = (int(ip)?, record.get(self.fields.get(arguments)?.offset as usize..)?);
        match setting.lookup.symbol(ip) {
            Some((name, _)) => out.extend_from_slice(name.as_bytes()),
            None => out.extend_from_slice(format!("{ip:#x}").as_bytes()),
        }
        out.extend_from_slice(b": ");
        let mut at = 0usize;
        let mut take = |size: usize, signed: bool| {
            at = at.next_multiple_of(size.min(4));
            let bits = self.endian.integer(buffer.get(at..)?, size, signed)?;
            at += size;
            Some(Int::new(bits, !signed, true))
        };
        let template = Template::parse(text.trim_end_matches('\n').as_bytes());
        for piece in &template.pieces {
            out.extend_from_slice(&piece.literal);
            let mut amount = |amount: Amount| match amount {
                Amount::Argument => take(4, true).map(|int| int.bits as i64),
                _ => None,
            };
            let width = amount(piece.conversion.width);
            let precision = amount(piece.conversion.precision);
            let value = match (piece.conversion.kind, piece.conversion.length) {
                (b's', _) => {
                    let mut text = Vec::new();
                    loop {
                        match take(1, false)?.bits as u8 {
                            0 => break Value::Text(text),
                            byte => text.push(byte),
                        }
                    }
                }
                (b'p', _) => Value::Int(take(usize::from(self.long_size), false)?),
                (b'c', _) => Value::Int(take(1, false)?),
                (_, Length::Byte) => Value::Int(take(1, true)?),
                (_, Length::Short) => Value::Int(take(2, true)?),
                (_, Length::Int) => Value::Int(take(4, true)?),
                (_, Length::Long) => Value::Int(take(usize::from(self.long_size), true)?),
                (_, Length::LongLong) => Value::Int(take(8, true)?),
            };
            piece.conversion.print(out, &value, width, precision, setting).then_some(())?;
        }
        out.extend_from_slice(&template.tail);
        Some(())
    }
}

/// The conversions of a print format that use one field and nothing else.
#[derive(Clone, Debug)]
pub struct FieldText {
    fields: Vec<Field>,
    field: usize,
    parts: Vec<(Conversion, [Option<Expr>; 3])>,
}

impl FieldText {
    pub(super) fn new(format: &EventFormat, name: &str) -> Option<FieldText> {
        let field = format.fields.iter().position(|field| field.name == name)?;
        let bound = Bound::new(format)?;
        let parts: Vec<_> = bound
            .template
            .pieces
            .into_iter()
            .zip(bound.arguments)
            .filter(|(_, arguments)| {
                let mut used = false;
                let mut alone = true;
                for argument in arguments.iter().flatten() {
                    argument.fields(&mut |other| {
                        used |= other == field;
                        alone &= other == field;
                    });
                }
                used && alone
            })
            .map(|(piece, arguments)| (piece.conversion, arguments))
            .collect();
        (!parts.is_empty()).then(|| FieldText { fields: format.fields.clone(), field, parts })
    }

    /// What is printed for `value`, the conversions one after another without the text
    /// between them.
    pub fn text(&self, value: u64) -> Option<String> {
        let what = What::Alone { field: self.field, value };
        let scope = Scope { fields: &self.fields, what, endian: Endian::NATIVE, long_size: 8 };
        let setting = Setting { endian: Endian::NATIVE, long_size: 8, lookup: &NoLookup };
        let mut out = Vec::new();
        for (conversion, arguments) in &self.parts {
            convert(&mut out, conversion, arguments, &scope, &setting)?;
        }
        Some(String::from_utf8_lossy(&out).into_owned())
    }
}
