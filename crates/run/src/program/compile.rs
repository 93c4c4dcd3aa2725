//! Text to a program ready to load, with every stage printable.

use bpf::KernelFacts;
use lang::hir::ExprKind;
use lang::options::Options;
use lang::source::{Source, Span};

use super::compiled::Compiled;
use super::filters;

/// A stage that `--emit` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The program as understood.
    Ast,
    /// Typed, names resolved.
    Hir,
    /// Basic blocks before registers are given.
    Lir,
    /// Instructions with their source.
    Asm,
}

/// What became of a text.
#[derive(Debug, Default)]
pub struct CompileOutcome {
    /// The program; none with errors.
    pub compiled: Option<Compiled>,
    /// Errors and warnings as text, for stderr.
    pub report: String,
    /// The stage asked for.
    pub stage: Option<String>,
    /// The `#if` lines whose parts were kept because of what this kernel has or lacks, each with its place.
    pub choices: Vec<String>,
}

/// Ring of streamed records where the program does not say how large: 512 pages, room for about 20 000
/// lines between two looks.
const DEFAULT_RING_BYTES: u32 = 2 << 20;

/// Compiles a text.
pub fn compile(
    text: &str,
    options: &Options<'_>,
    facts: &dyn KernelFacts,
    stage: Option<Stage>,
) -> CompileOutcome {
    let front = lang::front::front(text, options, facts);
    let choices = front.choices.iter().map(|span| chosen(&front.source, *span)).collect();
    let mut outcome = CompileOutcome { report: front.report(), choices, ..CompileOutcome::default() };
    if stage == Some(Stage::Ast) {
        outcome.stage = Some(front.ast_text());
        return outcome;
    }
    let source = front.source;
    let Some(mut hir) = front.hir else { return outcome };
    let never = never_true(&hir);
    filters::apply(&options.selection, &mut hir);
    if stage == Some(Stage::Hir) {
        outcome.stage = Some(lang::hir::print::print(&hir));
        return outcome;
    }
    let lowered = match lang::lower::compile(&hir, facts, Some(&source)) {
        Ok(lowered) => lowered,
        Err(lang::lower::CompileError::Unsupported(errors)) => {
            for error in errors {
                let at = source.line_column(error.span.start);
                let name = source.name(error.span.start);
                outcome
                    .report
                    .push_str(&format!("{name}:{}:{}: ERROR: {}\n", at.line, at.column, error.message));
            }
            return outcome;
        }
        Err(error) => {
            outcome.report.push_str(&format!("ERROR: {error}\n"));
            return outcome;
        }
    };
    match stage {
        Some(Stage::Lir) => outcome.stage = Some(lowered.lir()),
        Some(Stage::Asm) => outcome.stage = Some(lowered.listing(&source)),
        _ => {}
    }
    hir.schema.records.extend(lowered.reports);
    let mut image = lowered.image;
    if never.len() < image.programs.len() {
        image.programs.retain(|program| !never.contains(&program.probe));
    }
    if hir.schema.config.perf_rb_pages == 0
        && let Some(ring) = image.system.ring.and_then(|index| image.maps.get_mut(index as usize))
    {
        ring.max_entries = DEFAULT_RING_BYTES;
    }
    outcome.compiled = Some(Compiled { image, schema: hir.schema, layout: lowered.layout, source });
    outcome
}

/// `name:line: #if …`
fn chosen(source: &Source, span: Span) -> String {
    let (line, _) = source.line_text(span.start);
    format!("{}:{}: {}", source.name(span.start), source.line_column(span.start).line, line.trim())
}

/// Programs that need not be there at all: an option of the program's own (`/getopt("time")/`) has turned them off.
fn never_true(program: &lang::hir::Program) -> Vec<u32> {
    let off = |probe: &&lang::hir::Probe| {
        probe.predicate.as_ref().is_some_and(|predicate| matches!(predicate.kind, ExprKind::Int(0)))
    };
    program.probes.iter().filter(off).map(|probe| probe.program.0).collect()
}
