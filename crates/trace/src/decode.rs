//! From records to typed events: the adapter between a stream and an analysis.

use crate::{
    event::{Binding, Event},
    info::TraceInfo,
    stream::FormatIndex,
    strings::Strings,
};

/// Bindings of a trace's formats, and the strings its events refer to.
#[derive(Debug, Default)]
pub struct Decoder {
    bindings: Vec<Option<Binding>>,
    /// Strings that [`crate::strings::StringId`]s in events refer to.
    pub strings: Strings,
    /// Formats of known kinds that lack a field: event, field.
    pub unbound: Vec<(String, &'static str)>,
    /// Records that were too short for their format.
    pub short_records: u64,
}

impl Decoder {
    /// Binds all formats of a trace.
    pub fn new(info: &TraceInfo) -> Decoder {
        let mut decoder = Decoder::default();
        for format in &info.formats {
            decoder.bindings.push(match Binding::new(format, info.endian) {
                Ok(binding) => binding,
                Err(field) => {
                    decoder.unbound.push((format.full_name(), field));
                    None
                }
            });
        }
        decoder
    }

    /// How to read records of a format, and the table for its strings; `None` for kinds that
    /// lotse does not type.
    #[inline]
    pub fn binding(&mut self, format: FormatIndex) -> Option<(&Binding, &mut Strings)> {
        Some((self.bindings.get(format.0 as usize)?.as_ref()?, &mut self.strings))
    }

    /// The typed event of a record; `None` for kinds that lotse does not type, and for
    /// records too short (which are counted).
    #[inline]
    pub fn decode(&mut self, format: FormatIndex, record: &[u8]) -> Option<Event> {
        let binding = self.bindings.get(format.0 as usize)?.as_ref()?;
        let event = binding.read(record, &mut self.strings);
        self.short_records += u64::from(event.is_none());
        event
    }
}
