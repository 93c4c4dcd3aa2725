//! Timers, counters and watchpoints of perf.

use super::*;

impl Expander<'_> {
    pub(super) fn timed(&self, point: &Point<'_>) -> Result<Vec<Resolved>, Box<Diagnostic>> {
        let provider = point.probe_type.provider();
        self.parts(point, 2..=3, &format!("{provider}:hz:99, {provider}:s:1, {provider}:1s"))?;
        let parts = &point.ast.parts;
        let last = &parts[parts.len() - 1];
        let Ok(number) = parse_number(&last.text) else {
            return Err(bad(point, last.span, format!("'{}' is not a number", last.text)));
        };
        if number == 0 {
            return Err(bad(point, last.span, "the period cannot be 0"));
        }
        let nanoseconds = |unit: u64| number.checked_mul(unit).map(Period::Nanoseconds);
        let period = if parts.len() == 2 {
            Some(Period::Nanoseconds(number))
        } else {
            match parts[1].text.as_str() {
                "hz" => Some(Period::Hertz(number)),
                "s" => nanoseconds(1_000_000_000),
                "ms" => nanoseconds(1_000_000),
                "us" => nanoseconds(1_000),
                "ns" => nanoseconds(1),
                unit => {
                    let message = format!("'{unit}' is not a unit of time");
                    return Err(bad(point, parts[1].span, message).map_help("units are hz, s, ms, us"));
                }
            }
        };
        let Some(period) = period else { return Err(bad(point, last.span, "this period is too long")) };
        let name: Vec<&str> = parts.iter().skip(1).map(|part| part.text.as_str()).collect();
        let name = format!("{provider}:{}", name.join(":"));
        let profile = point.probe_type == ProbeType::Profile;
        let attach = if profile { Attach::Profile(period) } else { Attach::Interval(period) };
        Ok(vec![self.resolved(point, ProgramKind::PerfEvent, name, attach, Args::None, None)])
    }

    pub(super) fn counted(&self, point: &Point<'_>) -> Result<Vec<Resolved>, Box<Diagnostic>> {
        let provider = point.probe_type.provider();
        let mut parts: Vec<&Text> = point.ast.parts.iter().collect();
        if parts.len() == 3 && parts[2].text.is_empty() {
            parts.pop();
        } else {
            self.parts(point, 2..=3, &format!("{provider}:EVENT[:COUNT]"))?;
        }
        let hardware = point.probe_type == ProbeType::Hardware;
        let table = if hardware { HARDWARE } else { SOFTWARE };
        let event = &parts[1];
        let Some((name, config, usual)) = table.iter().find(|(name, ..)| *name == event.text) else {
            let message = format!("there is no {provider} event '{}'", event.text);
            let names = table.iter().map(|(name, ..)| *name);
            let finding = Diagnostic::error(Code::NoSuchProbe, event.span, message);
            let listed = names.clone().collect::<Vec<_>>().join(", ");
            let finding = match crate::diagnostic::did_you_mean(&event.text, names) {
                Some(help) => finding.help(help),
                None => finding.help(format!("events are {listed}")),
            };
            return Err(Box::new(finding));
        };
        if hardware {
            self.warn_unsupported(
                point,
                Feature::HardwareEvents,
                "hardware counters",
                "software:cpu-clock or profile",
            );
        }
        let count = match parts.get(2) {
            None => *usual,
            Some(part) => match parse_number(&part.text) {
                Ok(count) if count > 0 => count,
                _ => return Err(bad(point, part.span, format!("'{}' is not a count", part.text))),
            },
        };
        let attach = if hardware {
            Attach::Hardware { perf_type: 0, config: *config, count }
        } else {
            Attach::Software { config: *config, count }
        };
        let probe_name = format!("{provider}:{name}:{count}");
        Ok(vec![self.resolved(point, ProgramKind::PerfEvent, probe_name, attach, Args::None, None)])
    }

    pub(super) fn watchpoint(&self, point: &Point<'_>) -> Result<Vec<Resolved>, Box<Diagnostic>> {
        self.parts(point, 4..=4, "watchpoint:ADDRESS:LENGTH:rwx")?;
        let parts = &point.ast.parts;
        let place = &parts[1];
        let (address, function) = match parse_number(&place.text) {
            Ok(address) => (address, None),
            Err(_) => match place.text.rsplit_once("+arg") {
                Some((function, number)) => match number.parse() {
                    Ok(number) => (number, Some(function.to_string())),
                    Err(_) => {
                        return Err(bad(point, place.span, "after '+arg' comes the number of the argument"));
                    }
                },
                None => return Err(bad(point, place.span, format!("'{}' is not an address", place.text))),
            },
        };
        let length = match parts[2].text.as_str() {
            "1" => 1,
            "2" => 2,
            "4" => 4,
            "8" => 8,
            _ => return Err(bad(point, parts[2].span, "a watchpoint is 1, 2, 4 or 8 bytes long")),
        };
        if function.is_none() && !address.is_multiple_of(u64::from(length)) {
            return Err(bad(point, place.span, format!("the address is not aligned to {length} bytes")));
        }
        let mut mode = 0u8;
        for letter in parts[3].text.chars() {
            let bit = match letter {
                'r' => 1,
                'w' => 2,
                'x' => 4,
                _ => return Err(bad(point, parts[3].span, "the mode is made of r, w and x")),
            };
            if mode & bit != 0 {
                return Err(bad(point, parts[3].span, "a letter of the mode is there twice"));
            }
            mode |= bit;
        }
        if mode == 0 || mode & 4 != 0 && mode != 4 {
            return Err(bad(point, parts[3].span, "the mode is r, w, rw or x"));
        }
        if function.is_some() {
            let message = "a watchpoint on a function's argument cannot be set: only one on an address";
            return Err(Box::new(
                Diagnostic::error(Code::ProbeUnsupported, place.span, message)
                    .help("print the argument with a uprobe on the function, then watch that address"),
            ));
        }
        let asynchronous = point.probe_type == ProbeType::AsyncWatchpoint;
        let probe_name =
            format!("{}:{}:{}:{}", point.probe_type.provider(), place.text, parts[2].text, parts[3].text);
        let attach = Attach::Watchpoint { address, length, mode, function, asynchronous };
        let mut resolved = self.resolved(point, ProgramKind::PerfEvent, probe_name, attach, Args::None, None);
        if self.pid.is_some() {
            resolved.variant.space = Space::User;
        }
        Ok(vec![resolved])
    }
}
