use super::*;
use crate::map::flags;
use crate::text::parse;

fn run(text: &str, machine: &mut Machine) -> Result<Ran, Fault> {
    machine.run(&parse(text).unwrap(), &mut vec![7; 16])
}

#[test]
fn arithmetic_and_jumps() {
    let mut machine = Machine::with_maps(&[], 1);
    let ran = run("r0 = 7\nr0 *= 6\nif r0 == 42 goto pc+1\nr0 = 0\nexit", &mut machine).unwrap();
    assert_eq!((ran.result, ran.steps), (42, 4));
    assert_eq!(run("w0 = -1\nexit", &mut machine).unwrap().result, 0xffff_ffff);
    assert_eq!(run("r0 = -9\nr0 s/= 2\nexit", &mut machine).unwrap().result as i64, -4);
    assert_eq!(run("r0 = 5\nr1 = 0\nr0 %= r1\nexit", &mut machine).unwrap().result, 5);
    assert_eq!(run("r0 = *(u16 *)(r1 +0)\nr0 = be16 r0\nexit", &mut machine).unwrap().result, 0x0707);
}

#[test]
fn a_per_cpu_count_by_pid() {
    let spec = MapSpec {
        kind: MapKind::PerCpuHash,
        value_size: 8,
        max_entries: 2,
        flags: flags::NO_PREALLOC,
        ..MapSpec::array("pids", 8, 2)
    };
    let mut machine = Machine::with_maps(&[spec], 2);
    let text = "
        call bpf_get_current_pid_tgid
        r0 >>= 32
        *(u32 *)(r10 -4) = r0
        r2 = r10
        r2 += -4
        r1 = map[0]
        call bpf_map_lookup_elem
        if r0 == 0 goto pc+4
        r1 = *(u64 *)(r0 +0)
        r1 += 1
        *(u64 *)(r0 +0) = r1
        goto pc+9
        *(u64 *)(r10 -16) = 1
        r1 = map[0]
        r2 = r10
        r2 += -4
        r3 = r10
        r3 += -16
        r4 = 1
        call bpf_map_update_elem
        r0 = 0
        exit";
    run(text, &mut machine).unwrap();
    run(text, &mut machine).unwrap();
    machine.world.cpu = 1;
    run(text, &mut machine).unwrap();
    let key = 100_u32.to_le_bytes();
    assert_eq!(machine.keys(0), [key.to_vec()]);
    assert_eq!(machine.value(0, &key, 0).unwrap(), 2_u64.to_le_bytes());
    assert_eq!(machine.value(0, &key, 1).unwrap(), 1_u64.to_le_bytes());
}

#[test]
fn broken_rules_are_named() {
    let mut machine = Machine::with_maps(&[MapSpec::array("a", 8, 1)], 1);
    let mut what = |text: &str| run(text, &mut machine).unwrap_err().to_string();
    assert_eq!(what("r0 = r3\nexit"), "slot 0: r3 is not initialised");
    assert_eq!(
        what("r0 = 0\nr0 = *(u64 *)(r1 +16)\nexit"),
        "slot 1: read of 8 bytes at offset 16 of a region of 16 bytes"
    );
    assert_eq!(what("r0 = *(u64 *)(r10 -8)\nexit"), "slot 0: read of uninitialised stack, 8 bytes at -8");
    assert!(what("*(u64 *)(r10 +0) = 1\nexit").contains("offset 512"));
    assert!(what("r1 = 5\nr0 = *(u8 *)(r1 +0)\nexit").contains("no pointer"));
    assert!(what("r0 = 0\nif r0 == 0 goto pc-2").contains("still running"));
    assert!(what("r0 = 0").contains("leaves the program"));
    assert!(what("r1 = map[0][0]+8\nexit").contains("one element"));
    assert!(what("call bpf_map_lookup_elem\nexit").contains("argument 2 is not initialised"));
    assert!(what("call pc-1\nexit").contains("nested calls"));
}

#[test]
fn loops_with_callbacks() {
    let mut machine = Machine::with_maps(&[MapSpec::array("sum", 8, 1)], 1);
    let text = "
        r1 = 10
        r2 = func pc+5
        r3 = 0
        r4 = 0
        call bpf_loop
        exit
        r3 = map[0][0]+0
        r4 = *(u64 *)(r3 +0)
        r4 += r1
        *(u64 *)(r3 +0) = r4
        r0 = 0
        if r1 != 4 goto pc+1
        r0 = 1
        exit";
    // `func pc+5` counts from the second half of the load: that, r3, r4, call, exit, then the callback.
    let ran = run(text, &mut machine).unwrap();
    assert_eq!(ran.result, 5);
    assert_eq!(machine.value(0, &[0; 4], 0).unwrap(), 10_u64.to_le_bytes());
}

#[test]
fn outside_memory_by_probe_read_and_by_trusted_pointers() {
    let mut machine = Machine::with_maps(&[], 1);
    machine.world.place(0xffff_8000_0000_0000, b"hello\0rest".to_vec());
    let text = "
        r1 = r10
        r1 += -8
        r2 = 8
        r3 = 0xffff800000000000 ll
        call bpf_probe_read_kernel_str
        r0 = *(u8 *)(r10 -4)
        r1 = 0xffff800000000006 ll
        r2 = *(u8 *)(r1 +0)
        r0 += r2
        exit";
    assert_eq!(run(text, &mut machine).unwrap().result, u64::from(b'o') + u64::from(b'r'));
}
