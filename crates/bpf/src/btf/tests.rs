use super::*;

/// A small hand-made BTF: the kinds the writer has not got are appended as words.
fn own() -> Btf {
    let mut writer = BtfWriter::new();
    let long = writer.int("long int", 8, true);
    let pointer = writer.pointer(0);
    writer.function("callback", long, &[("index", long), ("context", pointer)]);
    Btf::new(writer.finish()).unwrap()
}

#[test]
fn written_types_read_back() {
    let btf = own();
    let found = btf.function("callback").unwrap();
    assert_eq!(found.parameters.iter().map(|p| p.name).collect::<Vec<_>>(), ["index", "context"]);
    assert_eq!(btf.prototype(found.id).unwrap(), "long int callback(long int index, void *context)");
    assert_eq!(btf.size_of(found.result), Some(8));
    assert!(btf.function("back").is_none(), "a name's end is not the name");
    assert_eq!(btf.type_end(), 5);
}

#[test]
fn damage_is_an_error_or_nothing() {
    assert_eq!(Btf::new(vec![1, 2, 3]).unwrap_err(), BtfError::Truncated("header"));
    assert_eq!(Btf::new(vec![0; 64]).unwrap_err(), BtfError::Magic(0));
    let good = own().bytes().to_vec();
    for cut in 24..good.len() {
        assert!(Btf::new(good[..cut].to_vec()).is_err());
    }
    for at in 24..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 0xff;
        let btf = Btf::new(bad).unwrap();
        for id in 0..btf.type_end() + 2 {
            let _ = (btf.type_name(id), btf.size_of(id), btf.signature(id), btf.field(id, "x"));
        }
    }
}

fn vmlinux() -> Option<Btf> {
    match std::fs::read("/sys/kernel/btf/vmlinux") {
        Ok(bytes) => Some(Btf::new(bytes).unwrap()),
        Err(error) => {
            testkit::skip::note(module_path!(), &format!("no kernel BTF here: {error}"));
            None
        }
    }
}

#[test]
fn the_kernel_of_this_host_is_understood() {
    let Some(btf) = vmlinux() else { return };
    let task = btf.find_struct("task_struct").unwrap();
    assert_eq!(btf.type_name(task), "struct task_struct");
    let comm = btf.field(task, "comm").unwrap();
    assert_eq!(btf.declaration(comm.type_id, "comm"), "char comm[16]");
    assert_eq!(btf.size_of(comm.type_id), Some(16));
    assert_eq!(btf.path_at(task, comm.bit_offset / 8 + 3).unwrap(), "comm[3]");

    let switch = btf.tracepoint("sched_switch").unwrap();
    assert_eq!(btf.get(switch.id).unwrap().name, "btf_trace_sched_switch");
    let names: Vec<_> = switch.parameters.iter().map(|p| p.name).collect();
    assert_eq!(names[..3], ["preempt", "prev", "next"]);
    assert_eq!(btf.type_name(switch.parameters[1].type_id), "struct task_struct *");

    // sk_buff's `data_len` lies behind anonymous unions; `pkt_type` is a bit field.
    let skb = btf.find_struct("sk_buff").unwrap();
    let kind = btf.field(skb, "pkt_type").unwrap();
    assert_eq!(kind.bit_size, 3);
    assert!(btf.field(skb, "no_such_member").is_none());
    assert!(nearest("pkt_typ", btf.field_names(skb), 2).contains(&"pkt_type"));

    let (id, value) = btf.enumerator("BPF_MAP_TYPE_HASH").unwrap();
    assert_eq!((btf.get(id).unwrap().name, value), ("bpf_map_type", 1));
    assert!(btf.tracepoint_names().any(|name| name == "sched_wakeup"));
    assert!(btf.find_c_name("unsigned int").is_some() && btf.find_c_name("struct file").is_some());
}
