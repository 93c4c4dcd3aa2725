//! The verifier's "no", put next to the line of the program that it is about.

use kernel::ebpf::LoadRefused;

use super::compiled::Compiled;
use lang::source::Span;

/// What a refusal says to a user: the place, the line, the verifier's words.
pub fn explained(compiled: &Compiled, refused: &LoadRefused) -> String {
    let Some(program) = compiled.image.programs.get(refused.program) else { return refused.to_string() };
    let slot = last_slot(&refused.log);
    let span =
        slot.and_then(|slot| program.span_at(slot)).map(|span| Span { start: span.start, end: span.end });
    if let Some(symbol) = missing_symbol(&refused.log) {
        return format!(
            "{}: this kernel does not tell the address of its symbol '{symbol}'\n{}  help: it needs CONFIG_KALLSYMS_ALL for data; grep {symbol} /proc/kallsyms shows whether it is there\n",
            span.map_or_else(|| program.name.clone(), |span| compiled.place(span)),
            span.map_or_else(String::new, |span| compiled.quoted(span)),
        );
    }
    let words = last_words(&refused.log).unwrap_or_else(|| refused.to_string());
    let place = span.map_or_else(|| program.name.clone(), |span| compiled.place(span));
    let quoted = span.map_or_else(String::new, |span| compiled.quoted(span));
    let at = slot.map_or_else(String::new, |slot| format!(" at instruction {slot} of {}", program.name));
    format!("{place}: the kernel's verifier refuses this program{at}: {words}\n{quoted}")
}

/// A per-CPU variable that BTF knows and kallsyms does not.
fn missing_symbol(log: &str) -> Option<&str> {
    let (_, after) = log.split_once("failed to find the address for kernel symbol '")?;
    Some(after.split_once('\'')?.0)
}

/// The instruction that the log speaks of last: a line `17: (79) r1 = …`.
fn last_slot(log: &str) -> Option<u32> {
    log.lines().rev().find_map(|line| {
        let (number, rest) = line.trim_start().split_once(": ")?;
        rest.starts_with('(').then(|| number.parse().ok())?
    })
}

/// The last line that is neither a statistic nor an instruction nor a state.
fn last_words(log: &str) -> Option<String> {
    let statistics = ["processed ", "verification time", "stack depth", "mark_precise", "max_states"];
    let line = log.lines().rev().find(|line| {
        let line = line.trim();
        let first = line.chars().next().unwrap_or(' ');
        !line.is_empty()
            && !statistics.iter().any(|start| line.starts_with(start))
            && !first.is_ascii_digit()
            && first != ';'
    })?;
    Some(line.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "func#0 @0\n0: R1=ctx() R10=fp0\n; x = *p @ a.c:3\n12: (79) r0 = *(u64 *)(r5 +0)\nR5 !read_ok\nprocessed 1 insns (limit 1000000) max_states_per_insn 0 total_states 0";

    #[test]
    fn the_log_names_its_instruction_and_reason() {
        assert_eq!(last_slot(LOG), Some(12));
        assert_eq!(last_words(LOG).as_deref(), Some("R5 !read_ok"));
        let log = "ldimm64 failed to find the address for kernel symbol 'runqueues'.\n";
        assert_eq!((missing_symbol(log), missing_symbol(LOG)), (Some("runqueues"), None));
        assert_eq!((last_slot(""), last_words("processed 3 insns")), (None, None));
    }
}
