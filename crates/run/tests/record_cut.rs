//! What a killed recorder leaves, made by hand: whole, short, damaged and hostile. Needs no
//! rights.

mod recording;

use std::fs;
use std::path::PathBuf;

use recording::Scratch;
use run::record::{
    Ledger, LossInterval, RecordError, finish_cut_recording, look_at_cut_recording, parts_folder,
};

const PAGE: usize = 4096;
const HEADER_PAGE: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";
const FORMAT: &str = "name: tick\nID: 7\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\tfield:unsigned int count;\toffset:8;\tsize:4;\tsigned:0;\n\nprint fmt: \"%u\", REC->count\n";

/// A page with events of thread 42, a nanosecond apart, `missed` events before it.
fn page(time: u64, events: u32, missed: u64) -> Vec<u8> {
    let mut data = Vec::new();
    for number in 0..events {
        let header: u32 = 3 | u32::from(number > 0) << 5;
        for word in [header, 7, 42, number] {
            data.extend(word.to_le_bytes());
        }
    }
    let mut commit = data.len() as u64;
    if missed > 0 {
        commit |= 0xffff_ffff_c000_0000;
        data.extend(missed.to_le_bytes());
    }
    let mut page = [&time.to_le_bytes()[..], &commit.to_le_bytes(), &data].concat();
    page.resize(PAGE, 0);
    page
}

fn manifest() -> serde_json::Value {
    serde_json::json!({
        "version": 1,
        // Process 1 of another time: dead.
        "owner": [1, u64::MAX, kernel::procfs::pid_namespace()],
        "instance": "lotse-1-2-3-4",
        "cpus": [0, 1],
        "page_size": PAGE,
        "started_ns": 500,
        "realtime_offset_ns": 1_000_000,
        "own_threads": [42],
        "filters": false,
        "dat_version": 7,
        "zstd_level": 1,
        "events": ["test:tick"],
        "metadata": {
            "header_page": HEADER_PAGE,
            "header_event": "# compressed entry header\n\ttype_len    :    5 bits\n",
            "ftrace_formats": [],
            "event_formats": [["test", [FORMAT]]],
            "printk_formats": "",
            "trace_clock": "local [mono]\n",
            "clock": "mono",
            "uname": "Linux 6.18.0 x86_64",
            "cpu_count": 2,
            "trace_id": 9,
        },
    })
}

fn parts(scratch: &Scratch, manifest: &serde_json::Value, pages: [&[u8]; 2]) -> PathBuf {
    let output = scratch.file("t.dat");
    let folder = parts_folder(&output);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("recording.json"), manifest.to_string()).unwrap();
    fs::write(folder.join("threads"), "42 40 a b] ==> c\n").unwrap();
    for (cpu, bytes) in pages.iter().enumerate() {
        fs::write(folder.join(format!("cpu{cpu}.pages")), bytes).unwrap();
    }
    output
}

fn finish(pages: [&[u8]; 2]) -> (Ledger, readers::Survey) {
    let scratch = Scratch::new("cut");
    let output = parts(&scratch, &manifest(), pages);
    let (file, ledger) = finish_cut_recording(&output).unwrap();
    assert_eq!(scratch.names(), ["t.dat"]);
    let survey = readers::survey(&mut *readers::open_path(&file).unwrap());
    assert_eq!(survey.total, ledger.recorded());
    assert_eq!(survey.losses.counted, ledger.lost());
    (ledger, survey)
}

#[test]
fn whole_pages_become_a_file_marked_as_cut() {
    let first = [page(1_000, 10, 0), page(2_000, 5, 30)].concat();
    let (ledger, _) = finish([&first, &[]]);
    assert!(ledger.cut);
    assert_eq!((ledger.recorded(), ledger.lost(), ledger.own), (15, 30, 15));
    assert_eq!((ledger.started_ns, ledger.ended_ns), (500, 2_004));
    let loss = LossInterval { from_ns: 1_009, to_ns: 2_000, count: Some(30), in_pages: true };
    assert_eq!(ledger.cpus[0].losses, [loss]);
    assert_eq!((ledger.cpus[0].read, ledger.disagreements()), (None, vec![]));
}

#[test]
fn a_recording_cut_at_any_byte_keeps_the_whole_pages_before() {
    let pages = [page(1_000, 10, 0), page(2_000, 5, 0)].concat();
    for length in [0, 1, 15, 16, PAGE - 1, PAGE, PAGE + 8, 2 * PAGE - 1] {
        let (ledger, _) = finish([&pages[..length], &pages]);
        let expected = if length >= PAGE { 10 } else { 0 };
        assert_eq!(ledger.cpus[0].recorded, expected, "cut at {length}");
        assert_eq!(ledger.cpus[1].recorded, 15);
    }
}

#[test]
fn a_hole_or_a_damaged_page_ends_a_cpus_events() {
    let mut damaged = page(2_000, 5, 0);
    damaged[16] = 28;
    damaged[8..12].copy_from_slice(&8u32.to_le_bytes());
    for bad in [vec![0; PAGE], damaged, vec![0xff; PAGE]] {
        let (ledger, _) = finish([&[page(1_000, 10, 0), bad, page(3_000, 1, 0)].concat(), &page(1, 1, 0)]);
        assert_eq!((ledger.cpus[0].recorded, ledger.cpus[1].recorded), (10, 1));
    }
}

#[test]
fn what_is_no_recording_is_refused_and_left_alone() {
    let scratch = Scratch::new("hostile");
    assert_eq!(look_at_cut_recording(&scratch.file("t.dat")).unwrap(), None);
    let refused = |change: &dyn Fn(&mut serde_json::Value), reason: &str| {
        let mut manifest = manifest();
        change(&mut manifest);
        let output = parts(&scratch, &manifest, [&[], &[]]);
        match finish_cut_recording(&output) {
            Err(RecordError::BadParts { reason: said, .. }) => assert!(said.contains(reason), "{said}"),
            other => panic!("{other:?}"),
        }
        assert_eq!(scratch.names(), ["t.dat.parts"]);
    };
    refused(&|m| m["version"] = 2.into(), "version 2");
    refused(&|m| m["page_size"] = 0x8000_0000u32.into(), "pages of 2147483648 bytes");
    refused(&|m| m["page_size"] = 8192.into(), "page header");
    refused(&|m| m["metadata"]["header_page"] = "".into(), "page header");
    refused(&|m| m["cpus"] = "all".into(), "recording.json");
    let own = kernel::procfs::ProcessIdentity::own().unwrap();
    refused(
        &|m| m["owner"] = serde_json::json!([own.pid, own.start_ticks, kernel::procfs::pid_namespace()]),
        "still runs",
    );
    fs::write(scratch.file("t.dat.parts/recording.json"), "{").unwrap();
    assert!(look_at_cut_recording(&scratch.file("t.dat")).is_err());
}

#[test]
fn random_pages_never_break_the_finishing() {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let begun = std::time::Instant::now();
    while begun.elapsed() < std::time::Duration::from_secs(2) {
        let mut pages = [page(1_000, 100, 0), page(2_000, 200, 7), page(3_000, 3, 0)].concat();
        for _ in 0..random() % 6 + 1 {
            let at = random() as usize % pages.len();
            pages[at] ^= 1 << (random() % 8);
        }
        pages.truncate(random() as usize % (pages.len() + 1));
        let scratch = Scratch::new("random");
        let output = parts(&scratch, &manifest(), [&pages, &[]]);
        let (file, ledger) = finish_cut_recording(&output).unwrap();
        // Times may run wild after a flipped bit; what was counted is in the file.
        let survey = readers::survey(&mut *readers::open_path(&file).unwrap());
        assert!(survey.total <= ledger.recorded(), "{survey:?}");
    }
}

#[test]
fn of_a_file_that_is_copied_in_part_all_pages_that_came_along_are_read() {
    let pages: Vec<u8> = (0..200).flat_map(|number| page(1_000 * (number + 1), 10, 0)).collect();
    let scratch = Scratch::new("copied");
    for level in [serde_json::json!(1), serde_json::json!(0), serde_json::Value::Null] {
        let mut manifest = manifest();
        manifest["zstd_level"] = level.clone();
        let output = parts(&scratch, &manifest, [&pages, &pages]);
        let (file, ledger) = finish_cut_recording(&output).unwrap();
        assert_eq!(ledger.recorded(), 4_000);
        let whole = fs::read(&file).unwrap();
        fs::remove_file(&file).unwrap();
        let part = scratch.file("part.dat");
        let read = |length: usize| -> Result<(u64, bool), String> {
            fs::write(&part, &whole[..length]).unwrap();
            let mut source = readers::open_path(&part).map_err(|error| error.to_string())?;
            let survey = readers::survey(&mut *source);
            let killed = "the recorder was killed; what came after the last page is missing";
            let cut = source.info().cut.clone().filter(|cut| cut != killed);
            Ok((survey.total, cut.is_some() || survey.error.is_some()))
        };
        assert_eq!(read(whole.len()), Ok((4_000, false)), "level {level}");
        let (mut least, mut refused) = (0, 0);
        let near_the_end = whole.len() - 64..whole.len();
        for length in (0..near_the_end.start).step_by(397).chain(near_the_end) {
            match read(length) {
                Ok((total, noticed)) => {
                    assert!(noticed, "level {level}: cut to {length} of {} is not noticed", whole.len());
                    assert!(total >= least, "level {level}: a longer part has fewer events");
                    least = total;
                }
                Err(said) => {
                    assert_eq!(least, 0, "level {level}: {length} of {} refused: {said}", whole.len());
                    assert!(said.contains("part.dat"), "{said}");
                    refused += 1;
                }
            }
        }
        assert!(refused > 0 && least == 4_000, "level {level}: {refused} refused, {least} at last");
    }
}
