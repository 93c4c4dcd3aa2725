//! Writes a made-up trace: `make_trace trace.dat|trace.dat.v6|trace.dat.zstd|perf.data|perf.data.zstd EVENTS CPUS FILE`.
#![allow(clippy::print_stderr)]

use std::{fs::File, io::BufWriter, process::ExitCode};

use testkit::synthetic::{
    Machine, Shape, perf_data,
    trace_dat::{self, Version},
};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [kind, events, cpus, path] = words.as_slice() else {
        eprintln!("make_trace KIND EVENTS CPUS FILE");
        return ExitCode::from(2);
    };
    let (Ok(events), Ok(cpus)) = (events.parse(), cpus.parse()) else {
        eprintln!("EVENTS and CPUS are numbers");
        return ExitCode::from(2);
    };
    let shape = Shape::new(events, cpus);
    let written = File::create(path).map(BufWriter::new).and_then(|mut out| match kind.as_str() {
        "trace.dat" => trace_dat::write(&mut out, shape, Machine::USUAL, Version::Seven, None),
        "trace.dat.v6" => trace_dat::write(&mut out, shape, Machine::USUAL, Version::Six, None),
        "trace.dat.zstd" => trace_dat::write(&mut out, shape, Machine::USUAL, Version::SevenZstd, None),
        "perf.data" => perf_data::write(&mut out, shape, Machine::USUAL, perf_data::Style::USUAL),
        "perf.data.zstd" => {
            let style = perf_data::Style { packed: true, ..perf_data::Style::USUAL };
            perf_data::write(&mut out, shape, Machine::USUAL, style)
        }
        other => Err(std::io::Error::other(format!("unknown kind {other}"))),
    });
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{path}: {error}");
            ExitCode::from(2)
        }
    }
}
