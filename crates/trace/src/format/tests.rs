//! Print formats as kernels have written them, with the text they print.

use super::*;
use crate::{Endian, TaskState, field::FieldValue, strings::Strings};

const COMMON: &str = "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
    \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
    \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
    \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n";

/// An event of fields `declaration@offset+size` (signed as a trailing `s`).
fn event(fields: &[&str], print_fmt: &str) -> EventFormat {
    let mut text = format!("name: made_up\nID: 300\nformat:\n{COMMON}");
    for field in fields {
        let (declaration, place) = field.rsplit_once('@').unwrap();
        let (offset, size) = place.split_once('+').unwrap();
        let signed = u8::from(size.ends_with('s'));
        text += &format!(
            "\tfield:{declaration};\toffset:{offset};\tsize:{};\tsigned:{signed};\n",
            size.trim_end_matches('s')
        );
    }
    text += &format!("\nprint fmt: {print_fmt}\n");
    EventFormat::parse("test", &text).unwrap()
}

fn printed(fields: &[&str], print_fmt: &str, body: &[u8]) -> String {
    let mut record = vec![0; 8];
    record.extend_from_slice(body);
    event(fields, print_fmt).printer(Endian::Little, 8).text(&record)
}

fn switch_states(print_fmt: &str, values: &[u64]) -> Vec<TaskState> {
    let format = event(&["long prev_state@8+8s"], print_fmt);
    let field = format.field("prev_state").unwrap();
    let plan = TaskState::plan(&format, field, Endian::Little).unwrap();
    values
        .iter()
        .map(|value| {
            let mut record = vec![0; 8];
            record.extend_from_slice(&value.to_le_bytes());
            TaskState::read(&plan, &record, &mut Strings::default()).unwrap()
        })
        .collect()
}

#[test]
fn prev_state_of_all_three_encodings() {
    use TaskState::*;
    let before_4_8 = r#""prev_state=%s%s ==>", REC->prev_state & (1024-1) ? __print_flags(REC->prev_state & (1024-1), "|", { 1, "S"} , { 2, "D" }, { 4, "T" }, { 8, "t" }, { 16, "Z" }, { 32, "X" }, { 64, "x" }, { 128, "K" }, { 256, "W" }, { 512, "P" }) : "R", REC->prev_state & 1024 ? "+" : """#;
    assert_eq!(
        switch_states(before_4_8, &[0, 1, 2, 4, 8, 16, 32, 64, 130, 512, 1024, 1025, 1 << 30]),
        [
            Runnable,
            Sleeping,
            Uninterruptible,
            Stopped,
            Traced,
            Zombie,
            Dead,
            Dead,
            Uninterruptible,
            Parked,
            Preempted,
            Preempted,
            Runnable
        ]
    );
    let from_4_8 = r#""prev_state=%s%s ==>", REC->prev_state & (4096-1) ? __print_flags(REC->prev_state & (4096-1), "|", { 1, "S"} , { 2, "D" }, { 4, "T" }, { 8, "t" }, { 64, "x" }, { 128, "K" }, { 256, "W" }, { 512, "P" }, { 1024, "N" }) : "R", REC->prev_state & 4096 ? "+" : """#;
    assert_eq!(
        switch_states(from_4_8, &[0, 1, 64, 512, 1026, 130, 4096]),
        [Runnable, Sleeping, Dead, Parked, Uninterruptible, Uninterruptible, Preempted]
    );
    let since_4_14 = r#""prev_state=%s%s ==>", (REC->prev_state & ((((0x00000000 | 0x00000001 | 0x00000002 | 0x00000004 | 0x00000008 | 0x00000010 | 0x00000020 | 0x00000040) + 1) << 1) - 1)) ? __print_flags(REC->prev_state & ((((0x00000000 | 0x00000001 | 0x00000002 | 0x00000004 | 0x00000008 | 0x00000010 | 0x00000020 | 0x00000040) + 1) << 1) - 1), "|", { 0x00000001, "S" }, { 0x00000002, "D" }, { 0x00000004, "T" }, { 0x00000008, "t" }, { 0x00000010, "X" }, { 0x00000020, "Z" }, { 0x00000040, "P" }, { 0x00000080, "I" }) : "R", REC->prev_state & (((0x00000000 | 0x00000001 | 0x00000002 | 0x00000004 | 0x00000008 | 0x00000010 | 0x00000020 | 0x00000040) + 1) << 1) ? "+" : """#;
    assert_eq!(
        switch_states(since_4_14, &[0, 1, 2, 4, 8, 16, 32, 64, 128, 256]),
        [Runnable, Sleeping, Uninterruptible, Stopped, Traced, Dead, Zombie, Parked, Idle, Preempted]
    );
    assert_eq!(switch_states("\"no state here\"", &[0, 1]), [Unknown, Unknown]);
}

#[test]
fn c_expressions_and_conversions() {
    let number =
        |print_fmt: &str, value: u64| printed(&["unsigned long long x@8+8"], print_fmt, &value.to_le_bytes());
    for (print_fmt, value, expected) in [
        (r#""%d|%u|%llx", REC->x, REC->x, REC->x"#, 0xffff_ffff_ffff_fffe, "-2|4294967294|fffffffffffffffe"),
        (r#""%5d|%-5d|%05d|%+d|%#x|%.3d", 7, 7, 7, 7, 7, 7"#, 0, "    7|7    |00007|+7|0x7|007"),
        (r#""%*d|%.*s|%c|%%", 4, 7, 2, "abc", 65"#, 0, "   7|ab|A|%"),
        (r#""%d", REC->x > 3 ? (REC->x == 5 ? 50 : 40) : 0"#, 5, "50"),
        (
            r#""%u,%u", ((unsigned int) ((REC->x) >> 20)), ((unsigned int) ((REC->x) & ((1U << 20) - 1)))"#,
            0x0080_0003,
            "8,3",
        ),
        (r#""%d %d", (char)(REC->x), (unsigned char)REC->x"#, 0xff, "-1 255"),
        (
            r#""%llu.%09u", __print_ns_to_secs(REC->x), __print_ns_without_secs(REC->x)"#,
            1_000_000_007,
            "1.000000007",
        ),
        (r#""%s", __print_symbolic(REC->x, { 0, "HI" }, { 1, "TIMER" })"#, 1, "TIMER"),
        (r#""%s", __print_symbolic(REC->x, { 0, "HI" }, { 1, "TIMER" })"#, 9, "0x9"),
        (
            r#""%s", __print_flags(REC->x, "|", { 1, "a" }, { (1 << 1), "b" }, { 0x4UL | 8, "cd" })"#,
            0x1f,
            "a|b|cd|0x10",
        ),
        (
            r#""%s", __print_symbolic(REC->x, { IOPRIO_CLASS_RT, "rt" }, { 2, "be" }, { 0, ((void *)0) })"#,
            2,
            "be",
        ),
        (r#""%p %p", (void *)REC->x, ((void *)0)"#, 0x10, "0x10 (nil)"),
        (r#""%lu %lu", sizeof(long), sizeof(REC->x)"#, 0, "8 8"),
        (r#""%s", (REC->x) ? "yes" : "no""#, 0, "no"),
        (r#""%s %d", !REC->x && ~0U == 4294967295 ? "t" : "f", -1 < 1U"#, 0, "t 0"),
        (r#""%pS %ps", (void *)REC->x, (void *)(unsigned long)REC->x"#, 0x1234, "0x1234 0x1234"),
        (r#""%d / 0", 1 / REC->x"#, 0, "x=0"),
        (r#""%d", unknown_function(REC->x)"#, 3, "x=3"),
    ] {
        assert_eq!(number(print_fmt, value), expected, "{print_fmt}");
    }
}

#[test]
fn arrays_and_dynamic_fields() {
    // A __data_loc at 8 pointing at offset 20 (5 bytes), a __rel_loc at 12 pointing 4 on.
    let mut body = Vec::new();
    body.extend_from_slice(&(5u32 << 16 | 20).to_le_bytes());
    body.extend_from_slice(&(4u32 << 16 | 9).to_le_bytes());
    body.extend_from_slice(&[1, 2, 3, 4]);
    body.extend_from_slice(b"name\0");
    body.extend_from_slice(&[0xc0, 0xa8, 0, 1]);
    let fields = ["__data_loc char[] name@8+4s", "__rel_loc u8[] addr@12+4", "u8 four[4]@16+4"];
    for (print_fmt, expected) in [
        (r#""%s", __get_str(name)"#, "name"),
        (r#""%6s|%-6s|", __get_str(name), __get_str(name)"#, "  name|name  |"),
        (r#""%pI4 %pI4", __get_rel_dynamic_array(addr), REC->four"#, "192.168.0.1 1.2.3.4"),
        (r#""%s", __print_hex(REC->four, 3)"#, "01 02 03"),
        (
            r#""%s", __print_hex_str(__get_rel_dynamic_array(addr), __get_rel_dynamic_array_len(addr))"#,
            "c0a80001",
        ),
        (r#""%s", __print_array(REC->four, 2, 1)"#, "{0x1,0x2}"),
        (r#""%s", __print_array(REC->four, 2, 2)"#, "{0x201,0x403}"),
        (r#""%d %d", REC->four[2], ((u8 *)__get_dynamic_array(name))[1]"#, "3 97"),
        (r#""%x", *(u32 *)REC->four"#, "4030201"),
        (r#""%*ph", 4, REC->four"#, "01 02 03 04"),
        (r#""%s", __get_bitmask(addr)"#, "0100a8c0"),
        (
            r#""nothing understood: %s", REC->four.inner"#,
            "name=name addr={0xc0,0xa8,0x0,0x1} four={0x1,0x2,0x3,0x4}",
        ),
    ] {
        assert_eq!(printed(&fields, print_fmt, &body), expected, "{print_fmt}");
    }
    // Cut off: said so, field by field.
    assert_eq!(
        printed(&fields, r#""%s", __get_str(name)"#, &body[..14]),
        "name=(cut) addr=(cut) four={0x1,0x2,0x3,0x4}"
    );
}

#[test]
fn binary_printk_takes_its_format_from_the_trace() {
    struct Names;
    impl PrintLookup for Names {
        fn symbol(&self, address: u64) -> Option<(String, u64)> {
            (address == 0x10).then(|| ("some_function".to_owned(), 0))
        }
        fn string_at(&self, address: u64) -> Option<&str> {
            (address == 0x20).then_some("a=%d b=%s c=%llu d=%ld\n")
        }
    }
    let text = format!(
        "name: bprint\nID: 6\nformat:\n{COMMON}\tfield:unsigned long ip;\toffset:8;\tsize:8;\tsigned:0;\n\tfield:const char * fmt;\toffset:16;\tsize:8;\tsigned:0;\n\tfield:u32 buf;\toffset:24;\tsize:0;\tsigned:0;\n\nprint fmt: \"%pf: %s\", (void *)REC->ip, REC->fmt\n"
    );
    let format = EventFormat::parse("ftrace", &text).unwrap();
    let mut record = vec![0; 8];
    record.extend_from_slice(&0x10u64.to_le_bytes());
    record.extend_from_slice(&0x20u64.to_le_bytes());
    record.extend_from_slice(&(-3i32).to_le_bytes());
    record.extend_from_slice(b"hi\0\0");
    record.extend_from_slice(&77u64.to_le_bytes());
    record.extend_from_slice(&(-1i64).to_le_bytes());
    let mut out = Vec::new();
    format.printer(Endian::Little, 8).print(&record, &Names, &mut out);
    assert_eq!(String::from_utf8(out).unwrap(), "some_function: a=-3 b=hi c=77 d=-1");
}

#[test]
fn both_byte_orders_and_long_sizes() {
    let format = event(&["unsigned long x@8+4", "u16 y@12+2"], r#""%lx %u", REC->x, REC->y"#);
    let record = [0, 0, 0, 0, 0, 0, 0, 0, 0x12, 0x34, 0x56, 0x78, 1, 0];
    assert_eq!(format.printer(Endian::Big, 4).text(&record), "12345678 256");
    assert_eq!(format.printer(Endian::Little, 4).text(&record), "78563412 1");
}

/// A small generator of pseudo-random numbers (xorshift), so that a failure repeats.
struct Random(u64);

impl Random {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % below.max(1) as u64) as usize
    }
}

/// The fuzz body: whatever the text and the record, no panic and no hang.
fn parse_and_print(text: &str, record: &[u8]) {
    if let Ok(format) = EventFormat::parse("fuzz", text) {
        for endian in [Endian::Little, Endian::Big] {
            let text = format.printer(endian, 4).text(record);
            assert!(text.len() < 1 << 20, "{} bytes of text from {}", text.len(), record.len());
        }
        for field in &format.fields {
            let _ = format.print_field_alone(&field.name, 3);
            let _ = crate::event::Binding::new(&format, Endian::Big);
        }
    }
}

#[test]
fn mutated_formats_never_panic() {
    let seeds = [event(
        &[
            "__data_loc char[] name@8+4s",
            "__rel_loc u8[] addr@12+4",
            "u8 four[4]@16+4",
            "long prev_state@20+8s",
        ],
        r#""%s %-*.*s %pI4 %*ph %s %d", __get_str(name), REC->four[1], 3, __print_flags(REC->prev_state & (1024-1), "|", { 1, "S"}, {2, "D"}), REC->four, 3, REC->four, __print_array(REC->four, REC->four[0], 1), (int)(REC->prev_state ? -1 : ~REC->four[3]) << 3 / REC->four[2]"#,
    )];
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let marks = [
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ",",
        "\"",
        "%",
        "*",
        "-",
        "REC->",
        "9999999999",
        "0x",
        "?",
        ":",
        ";",
        "\n",
        "sizeof(",
        "\\",
    ];
    let until = std::time::Instant::now() + std::time::Duration::from_millis(1500);
    let mut rounds = 0u32;
    while std::time::Instant::now() < until {
        let seed = &seeds[random.next(seeds.len())];
        let mut text = format!("name: {}\nID: {}\nformat:\n{COMMON}", seed.name, seed.id);
        for field in seed.fields.iter().filter(|f| !f.common) {
            let shape = match field.shape {
                FieldShape::Array { length } => format!("[{length}]"),
                _ => String::new(),
            };
            let prefix = match field.shape {
                FieldShape::DataLoc => "__data_loc ",
                FieldShape::RelLoc => "__rel_loc ",
                _ => "",
            };
            text += &format!(
                "\tfield:{prefix}{} {}{shape};\toffset:{};\tsize:{};\tsigned:0;\n",
                field.type_name, field.name, field.offset, field.size
            );
        }
        text += &format!("\nprint fmt: {}\n", seed.print_fmt);
        let mut bytes: Vec<char> = text.chars().collect();
        for _ in 0..1 + random.next(6) {
            if bytes.is_empty() {
                break;
            }
            let at = random.next(bytes.len());
            match random.next(4) {
                0 => drop(bytes.remove(at)),
                1 => bytes.truncate(at.max(1)),
                2 => {
                    let mark = marks[random.next(marks.len())];
                    bytes.splice(at..at, mark.repeat(1 + random.next(3)).chars());
                }
                _ => bytes[at] = char::from(random.next(128) as u8),
            }
        }
        let record: Vec<u8> = (0..random.next(64)).map(|_| random.next(256) as u8).collect();
        parse_and_print(&bytes.into_iter().collect::<String>(), &record);
        rounds += 1;
    }
    assert!(rounds > 50, "{rounds}");
    // Nesting far beyond any stack.
    for open in ["(", "-", "!", "REC->four[", "1?", "__print_hex(", "1-", "(int)", "sizeof ", "{"] {
        parse_and_print(&format!("name: x\nID: 1\nprint fmt: \"%d\", {}1", open.repeat(200_000)), &[0; 16]);
    }
}
