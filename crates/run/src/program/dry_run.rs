//! What the kernel says of a program that is loaded and not attached.

use kernel::facts::LiveFacts;
use kernel::load::ImageRefused;

use super::compiled::Compiled;
use super::session::load;

/// The verifier's statistics of one program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Name.
    pub name: String,
    /// Program type.
    pub kind: &'static str,
    /// Instructions of the program, 8-byte slots.
    pub instructions: u32,
    /// Instructions that the verifier walked.
    pub walked: Option<u64>,
    /// Bytes of stack, of each function.
    pub stack_depth: Option<String>,
    /// Microseconds that verification took.
    pub microseconds: Option<u64>,
    /// Bytes of machine code.
    pub machine_code_bytes: u32,
}

/// Loads everything, attaches nothing.
pub fn dry_run(compiled: &Compiled, facts: &LiveFacts) -> Result<Vec<Verified>, ImageRefused> {
    let loaded = load(compiled, facts, true)?;
    let programs = compiled.image.programs.iter().zip(&loaded.programs);
    let rows = programs.map(|(program, loaded)| {
        let text = loaded.statistics.as_deref().unwrap_or_default();
        let said = loaded.facts().unwrap_or_default();
        Verified {
            name: program.name.clone(),
            kind: program.kind.name(),
            instructions: bpf::insn::slot_count(&program.instructions),
            walked: number_after(text, "processed "),
            stack_depth: text.lines().find_map(|line| line.strip_prefix("stack depth ")).map(str::to_owned),
            microseconds: number_after(text, "verification time "),
            machine_code_bytes: said.machine_code_bytes,
        }
    });
    Ok(rows.collect())
}

fn number_after(text: &str, words: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(words))?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    #[test]
    fn numbers_are_found_behind_their_words() {
        let text =
            "verification time 81 usec\nstack depth 16+8\nprocessed 24 insns (limit 1000000) max_states";
        assert_eq!(super::number_after(text, "processed "), Some(24));
        assert_eq!(super::number_after(text, "verification time "), Some(81));
        assert_eq!(super::number_after(text, "nothing "), None);
    }
}
