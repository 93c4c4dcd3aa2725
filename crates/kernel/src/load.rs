//! An image into the kernel: maps, own types, programs.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use bpf::Image;
use bpf::image::Attach;

use crate::ebpf::program::LoadContext;
use crate::ebpf::{LoadRefused, LoadedProgram, Map, MappedArray, Ring, types};
use crate::error::Refused;

/// How to load.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoadOptions {
    /// Ask the verifier for its statistics.
    pub statistics: bool,
    /// Possible CPUs of this machine.
    pub possible_cpus: u32,
}

/// An image in the kernel: nothing of it is attached yet.
#[derive(Debug)]
pub struct Loaded {
    /// In the order of `Image::maps`.
    pub maps: Vec<Map>,
    /// In the order of `Image::programs`.
    pub programs: Vec<LoadedProgram>,
    /// The ring of streamed records.
    pub ring: Option<Ring>,
    /// The shared data array.
    pub data: Option<MappedArray>,
    // Types have to outlive the programs' loading only, but bpftool shows names through them.
    _types: Vec<OwnedFd>,
}

/// Why an image could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum ImageRefused {
    /// A map or the own types.
    #[error(transparent)]
    Object(#[from] Refused),
    /// A program, with the verifier's log.
    #[error(transparent)]
    Program(Box<LoadRefused>),
}

impl Loaded {
    /// Creates the maps and loads the programs. `before_programs` is given the maps, to fill in what
    /// programs read (start time, own process id, …).
    pub fn load(
        image: &Image,
        options: LoadOptions,
        before_programs: impl FnOnce(&[Map], Option<&MappedArray>) -> Result<(), Refused>,
    ) -> Result<Loaded, ImageRefused> {
        let maps: Vec<Map> = image
            .maps
            .iter()
            .map(|spec| Map::create(spec, options.possible_cpus))
            .collect::<Result<_, _>>()?;
        let system = |index: Option<u32>| index.and_then(|index| maps.get(index as usize));
        let data = system(image.system.data).map(Map::share).transpose()?;
        let ring = system(image.system.ring).map(Ring::open).transpose()?;
        before_programs(&maps, data.as_ref())?;

        let own_types = image.btf.as_deref().map(types::load).transpose()?;
        let modules: Vec<OwnedFd> =
            image.modules.iter().map(|module| types::of_module(module)).collect::<Result<_, _>>()?;
        let descriptors: Vec<i32> = maps
            .iter()
            .map(|map| map.as_fd().as_raw_fd())
            .chain(modules.iter().map(AsRawFd::as_raw_fd))
            .collect();

        let mut programs = Vec::with_capacity(image.programs.len());
        for (index, program) in image.programs.iter().enumerate() {
            let module = match (&program.attach, &program.attach_module) {
                (Attach::TestRun(_), _) | (_, None) => None,
                (_, Some(module)) => Some(types::of_module(module)?),
            };
            let context = LoadContext {
                license: &image.license,
                descriptors: &descriptors,
                own_types: own_types.as_ref().map(AsFd::as_fd),
                attach_to: module.as_ref().map(AsFd::as_fd),
                statistics: options.statistics,
            };
            let loaded = LoadedProgram::load(program, context).map_err(|(refused, log)| {
                ImageRefused::Program(Box::new(LoadRefused { refused, program: index, log }))
            })?;
            programs.push(loaded);
        }
        Ok(Loaded { maps, programs, ring, data, _types: own_types.into_iter().chain(modules).collect() })
    }
}
