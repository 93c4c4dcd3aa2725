//! How often a program's probes would fire here, measured with programs that only count.

use std::time::{Duration, Instant};

use bpf::KernelFacts;
use bpf::image::{Attach, Image, SystemMaps};
use bpf::insn::*;
use bpf::map::{MapSpec, flags};
use kernel::attach::{Attacher, Attachments};
use kernel::facts::LiveFacts;
use kernel::load::{LoadOptions, Loaded};
use kernel::stop::{StopToken, wait_readable};

use super::compiled::Compiled;
use super::session::SessionError;
use std::os::fd::AsFd;

/// How often one program's probes fired.
#[derive(Clone, Debug, PartialEq)]
pub struct Rate {
    /// The program.
    pub name: String,
    /// Times.
    pub fired: u64,
    /// Per second, all CPUs together.
    pub per_second: f64,
    /// Why it could not be attached.
    pub refused: Option<String>,
}

const BYTES_PER_COUNTER: u32 = 64;

/// Attaches counters in place of the programs for a while. Begin, end and iterators are left out.
pub fn measure(
    compiled: &Compiled,
    facts: &LiveFacts,
    span: Duration,
    stop: &StopToken,
) -> Result<Vec<Rate>, SessionError> {
    let mut programs = compiled.image.programs.clone();
    programs.retain(|program| !matches!(program.attach, Attach::TestRun(_) | Attach::Iterator { .. }));
    let stride = programs.len() as u32 * BYTES_PER_COUNTER;
    for (index, program) in programs.iter_mut().enumerate() {
        program.instructions = counter(index as u32 * BYTES_PER_COUNTER);
        (program.functions, program.lines, program.spans) = (vec![], vec![], vec![]);
    }
    let data =
        MapSpec { flags: flags::MMAPABLE, ..MapSpec::array("rates", stride.max(BYTES_PER_COUNTER), 1) };
    let image = Image {
        license: compiled.image.license.clone(),
        maps: vec![data],
        system: SystemMaps { data: Some(0), ..SystemMaps::default() },
        programs,
        ..Image::default()
    };
    let options = LoadOptions { statistics: false, possible_cpus: facts.possible_cpus() };
    let loaded = Loaded::load(&image, options, |_, _| Ok(()))?;
    let Some(data) = &loaded.data else { return Ok(vec![]) };
    let read = |index: usize| data.load(index * BYTES_PER_COUNTER as usize);

    let mut attachments = Attachments::default();
    let mut attacher = Attacher::new()?;
    let mut refusals: Vec<Option<String>> = Vec::new();
    for (index, (program, loaded)) in image.programs.iter().zip(&loaded.programs).enumerate() {
        let refused = attacher.attach(index, loaded, &program.attach, &mut attachments);
        refusals.push(refused.err().map(|refused| refused.to_string()));
    }
    let before: Vec<u64> = (0..image.programs.len()).map(read).collect();
    let begun = Instant::now();
    while begun.elapsed() < span && stop.requested().is_none() && stop.take_requests() == 0 {
        wait_readable(&[stop.as_fd()], Some(span.saturating_sub(begun.elapsed())))?;
    }
    let seconds = begun.elapsed().as_secs_f64().max(1e-9);
    let after: Vec<u64> = (0..image.programs.len()).map(read).collect();
    attachments.detach();
    let rows = image.programs.iter().enumerate().map(|(index, program)| {
        let fired = after[index] - before[index];
        Rate {
            name: program.name.clone(),
            fired,
            per_second: fired as f64 / seconds,
            refused: refusals[index].clone(),
        }
    });
    Ok(rows.collect())
}

/// `data[offset] += 1; return 0`, atomically.
fn counter(offset: u32) -> Vec<Instruction> {
    vec![
        Instruction::LoadImm64 { dst: R1, value: Imm64::MapValue { map: 0, offset } },
        Instruction::mov(R2, 1),
        Instruction::Atomic { size: Size::D, op: AtomicOp::Add, fetch: false, base: R1, offset: 0, src: R2 },
        Instruction::mov(R0, 0),
        Instruction::Exit,
    ]
}
