//! `tracepoint:` probes served by typed raw tracepoints, which cost half as much, where the answer is the same:
//! nothing of the tracepoint's own record is read.

use bpf::KernelFacts;
use bpf::facts::Feature;

use crate::hir::Program;
use crate::schema::{Attach, ProgramKind};

use super::analysis::reads_context;

/// Changes programs in place; answers how many were changed.
pub fn serve_by_raw_tracepoints(program: &mut Program, facts: &dyn KernelFacts) -> usize {
    if !facts.has(Feature::TpBtf) {
        return 0;
    }
    let mut changed = 0;
    for probe in &program.probes {
        let target = &mut program.schema.programs[probe.program.0 as usize];
        if target.kind != ProgramKind::Tracepoint || target.targets.len() != 1 {
            continue;
        }
        if reads_context(probe, &program.functions) {
            continue;
        }
        let Attach::Tracepoint { category, name } = &target.targets[0].attach else { continue };
        // System calls have no raw tracepoint each.
        if category == "syscalls" {
            continue;
        }
        let Some(signature) = facts.btf().and_then(|btf| btf.tracepoint(name)) else { continue };
        let attach = Attach::RawTracepoint { module: None, name: name.clone(), btf_id: signature.id };
        target.kind = ProgramKind::TracingRawTracepoint;
        target.targets[0].attach = attach;
        changed += 1;
    }
    changed
}
