//! Helper functions: numbers, names, shapes of arguments and results. Which program types may call one
//! depends on the kernel and is asked of [`KernelFacts::has_helper`](crate::KernelFacts::has_helper).

use crate::facts::Version;

/// What an argument is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// A number, or an address the helper does not trust.
    Scalar,
    /// Memory, a key, a value, a kernel object, a callback.
    Pointer,
    /// A map by `ld_imm64`.
    Map,
    /// The program's context.
    Context,
}

/// What a helper returns in r0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Returned {
    /// Nothing of use.
    Nothing,
    /// A number; errors are negative errno values.
    Scalar,
    /// An address, usually to be compared with null first.
    Pointer,
}

/// One helper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Helper {
    /// `BPF_FUNC_*`.
    pub id: u32,
    /// Without the `bpf_` prefix.
    pub name: &'static str,
    /// At most five.
    pub arguments: &'static [Argument],
    /// Result.
    pub returned: Returned,
    /// First kernel, where it matters and is known.
    pub since: Option<Version>,
}

/// The helper of a number.
pub fn by_id(id: u32) -> Option<&'static Helper> {
    HELPERS.get((id as usize).checked_sub(1)?)
}

/// The helper of a name, with or without the `bpf_` prefix.
pub fn by_name(name: &str) -> Option<&'static Helper> {
    let name = name.strip_prefix("bpf_").unwrap_or(name);
    HELPERS.iter().find(|helper| helper.name == name)
}

/// Numbers by name, for code that calls them.
pub mod id {
    #[allow(missing_docs)]
    pub const MAP_LOOKUP_ELEM: u32 = 1;
    #[allow(missing_docs)]
    pub const MAP_UPDATE_ELEM: u32 = 2;
    #[allow(missing_docs)]
    pub const MAP_DELETE_ELEM: u32 = 3;
    #[allow(missing_docs)]
    pub const PROBE_READ: u32 = 4;
    #[allow(missing_docs)]
    pub const KTIME_GET_NS: u32 = 5;
    #[allow(missing_docs)]
    pub const TRACE_PRINTK: u32 = 6;
    #[allow(missing_docs)]
    pub const GET_PRANDOM_U32: u32 = 7;
    #[allow(missing_docs)]
    pub const GET_SMP_PROCESSOR_ID: u32 = 8;
    #[allow(missing_docs)]
    pub const SKB_STORE_BYTES: u32 = 9;
    #[allow(missing_docs)]
    pub const L3_CSUM_REPLACE: u32 = 10;
    #[allow(missing_docs)]
    pub const L4_CSUM_REPLACE: u32 = 11;
    #[allow(missing_docs)]
    pub const TAIL_CALL: u32 = 12;
    #[allow(missing_docs)]
    pub const CLONE_REDIRECT: u32 = 13;
    #[allow(missing_docs)]
    pub const GET_CURRENT_PID_TGID: u32 = 14;
    #[allow(missing_docs)]
    pub const GET_CURRENT_UID_GID: u32 = 15;
    #[allow(missing_docs)]
    pub const GET_CURRENT_COMM: u32 = 16;
    #[allow(missing_docs)]
    pub const GET_CGROUP_CLASSID: u32 = 17;
    #[allow(missing_docs)]
    pub const SKB_VLAN_PUSH: u32 = 18;
    #[allow(missing_docs)]
    pub const SKB_VLAN_POP: u32 = 19;
    #[allow(missing_docs)]
    pub const SKB_GET_TUNNEL_KEY: u32 = 20;
    #[allow(missing_docs)]
    pub const SKB_SET_TUNNEL_KEY: u32 = 21;
    #[allow(missing_docs)]
    pub const PERF_EVENT_READ: u32 = 22;
    #[allow(missing_docs)]
    pub const REDIRECT: u32 = 23;
    #[allow(missing_docs)]
    pub const GET_ROUTE_REALM: u32 = 24;
    #[allow(missing_docs)]
    pub const PERF_EVENT_OUTPUT: u32 = 25;
    #[allow(missing_docs)]
    pub const SKB_LOAD_BYTES: u32 = 26;
    #[allow(missing_docs)]
    pub const GET_STACKID: u32 = 27;
    #[allow(missing_docs)]
    pub const CSUM_DIFF: u32 = 28;
    #[allow(missing_docs)]
    pub const SKB_GET_TUNNEL_OPT: u32 = 29;
    #[allow(missing_docs)]
    pub const SKB_SET_TUNNEL_OPT: u32 = 30;
    #[allow(missing_docs)]
    pub const SKB_CHANGE_PROTO: u32 = 31;
    #[allow(missing_docs)]
    pub const SKB_CHANGE_TYPE: u32 = 32;
    #[allow(missing_docs)]
    pub const SKB_UNDER_CGROUP: u32 = 33;
    #[allow(missing_docs)]
    pub const GET_HASH_RECALC: u32 = 34;
    #[allow(missing_docs)]
    pub const GET_CURRENT_TASK: u32 = 35;
    #[allow(missing_docs)]
    pub const PROBE_WRITE_USER: u32 = 36;
    #[allow(missing_docs)]
    pub const CURRENT_TASK_UNDER_CGROUP: u32 = 37;
    #[allow(missing_docs)]
    pub const SKB_CHANGE_TAIL: u32 = 38;
    #[allow(missing_docs)]
    pub const SKB_PULL_DATA: u32 = 39;
    #[allow(missing_docs)]
    pub const CSUM_UPDATE: u32 = 40;
    #[allow(missing_docs)]
    pub const SET_HASH_INVALID: u32 = 41;
    #[allow(missing_docs)]
    pub const GET_NUMA_NODE_ID: u32 = 42;
    #[allow(missing_docs)]
    pub const SKB_CHANGE_HEAD: u32 = 43;
    #[allow(missing_docs)]
    pub const XDP_ADJUST_HEAD: u32 = 44;
    #[allow(missing_docs)]
    pub const PROBE_READ_STR: u32 = 45;
    #[allow(missing_docs)]
    pub const GET_SOCKET_COOKIE: u32 = 46;
    #[allow(missing_docs)]
    pub const GET_SOCKET_UID: u32 = 47;
    #[allow(missing_docs)]
    pub const SET_HASH: u32 = 48;
    #[allow(missing_docs)]
    pub const SETSOCKOPT: u32 = 49;
    #[allow(missing_docs)]
    pub const SKB_ADJUST_ROOM: u32 = 50;
    #[allow(missing_docs)]
    pub const REDIRECT_MAP: u32 = 51;
    #[allow(missing_docs)]
    pub const SK_REDIRECT_MAP: u32 = 52;
    #[allow(missing_docs)]
    pub const SOCK_MAP_UPDATE: u32 = 53;
    #[allow(missing_docs)]
    pub const XDP_ADJUST_META: u32 = 54;
    #[allow(missing_docs)]
    pub const PERF_EVENT_READ_VALUE: u32 = 55;
    #[allow(missing_docs)]
    pub const PERF_PROG_READ_VALUE: u32 = 56;
    #[allow(missing_docs)]
    pub const GETSOCKOPT: u32 = 57;
    #[allow(missing_docs)]
    pub const OVERRIDE_RETURN: u32 = 58;
    #[allow(missing_docs)]
    pub const SOCK_OPS_CB_FLAGS_SET: u32 = 59;
    #[allow(missing_docs)]
    pub const MSG_REDIRECT_MAP: u32 = 60;
    #[allow(missing_docs)]
    pub const MSG_APPLY_BYTES: u32 = 61;
    #[allow(missing_docs)]
    pub const MSG_CORK_BYTES: u32 = 62;
    #[allow(missing_docs)]
    pub const MSG_PULL_DATA: u32 = 63;
    #[allow(missing_docs)]
    pub const BIND: u32 = 64;
    #[allow(missing_docs)]
    pub const XDP_ADJUST_TAIL: u32 = 65;
    #[allow(missing_docs)]
    pub const SKB_GET_XFRM_STATE: u32 = 66;
    #[allow(missing_docs)]
    pub const GET_STACK: u32 = 67;
    #[allow(missing_docs)]
    pub const SKB_LOAD_BYTES_RELATIVE: u32 = 68;
    #[allow(missing_docs)]
    pub const FIB_LOOKUP: u32 = 69;
    #[allow(missing_docs)]
    pub const SOCK_HASH_UPDATE: u32 = 70;
    #[allow(missing_docs)]
    pub const MSG_REDIRECT_HASH: u32 = 71;
    #[allow(missing_docs)]
    pub const SK_REDIRECT_HASH: u32 = 72;
    #[allow(missing_docs)]
    pub const LWT_PUSH_ENCAP: u32 = 73;
    #[allow(missing_docs)]
    pub const LWT_SEG6_STORE_BYTES: u32 = 74;
    #[allow(missing_docs)]
    pub const LWT_SEG6_ADJUST_SRH: u32 = 75;
    #[allow(missing_docs)]
    pub const LWT_SEG6_ACTION: u32 = 76;
    #[allow(missing_docs)]
    pub const RC_REPEAT: u32 = 77;
    #[allow(missing_docs)]
    pub const RC_KEYDOWN: u32 = 78;
    #[allow(missing_docs)]
    pub const SKB_CGROUP_ID: u32 = 79;
    #[allow(missing_docs)]
    pub const GET_CURRENT_CGROUP_ID: u32 = 80;
    #[allow(missing_docs)]
    pub const GET_LOCAL_STORAGE: u32 = 81;
    #[allow(missing_docs)]
    pub const SK_SELECT_REUSEPORT: u32 = 82;
    #[allow(missing_docs)]
    pub const SKB_ANCESTOR_CGROUP_ID: u32 = 83;
    #[allow(missing_docs)]
    pub const SK_LOOKUP_TCP: u32 = 84;
    #[allow(missing_docs)]
    pub const SK_LOOKUP_UDP: u32 = 85;
    #[allow(missing_docs)]
    pub const SK_RELEASE: u32 = 86;
    #[allow(missing_docs)]
    pub const MAP_PUSH_ELEM: u32 = 87;
    #[allow(missing_docs)]
    pub const MAP_POP_ELEM: u32 = 88;
    #[allow(missing_docs)]
    pub const MAP_PEEK_ELEM: u32 = 89;
    #[allow(missing_docs)]
    pub const MSG_PUSH_DATA: u32 = 90;
    #[allow(missing_docs)]
    pub const MSG_POP_DATA: u32 = 91;
    #[allow(missing_docs)]
    pub const RC_POINTER_REL: u32 = 92;
    #[allow(missing_docs)]
    pub const SPIN_LOCK: u32 = 93;
    #[allow(missing_docs)]
    pub const SPIN_UNLOCK: u32 = 94;
    #[allow(missing_docs)]
    pub const SK_FULLSOCK: u32 = 95;
    #[allow(missing_docs)]
    pub const TCP_SOCK: u32 = 96;
    #[allow(missing_docs)]
    pub const SKB_ECN_SET_CE: u32 = 97;
    #[allow(missing_docs)]
    pub const GET_LISTENER_SOCK: u32 = 98;
    #[allow(missing_docs)]
    pub const SKC_LOOKUP_TCP: u32 = 99;
    #[allow(missing_docs)]
    pub const TCP_CHECK_SYNCOOKIE: u32 = 100;
    #[allow(missing_docs)]
    pub const SYSCTL_GET_NAME: u32 = 101;
    #[allow(missing_docs)]
    pub const SYSCTL_GET_CURRENT_VALUE: u32 = 102;
    #[allow(missing_docs)]
    pub const SYSCTL_GET_NEW_VALUE: u32 = 103;
    #[allow(missing_docs)]
    pub const SYSCTL_SET_NEW_VALUE: u32 = 104;
    #[allow(missing_docs)]
    pub const STRTOL: u32 = 105;
    #[allow(missing_docs)]
    pub const STRTOUL: u32 = 106;
    #[allow(missing_docs)]
    pub const SK_STORAGE_GET: u32 = 107;
    #[allow(missing_docs)]
    pub const SK_STORAGE_DELETE: u32 = 108;
    #[allow(missing_docs)]
    pub const SEND_SIGNAL: u32 = 109;
    #[allow(missing_docs)]
    pub const TCP_GEN_SYNCOOKIE: u32 = 110;
    #[allow(missing_docs)]
    pub const SKB_OUTPUT: u32 = 111;
    #[allow(missing_docs)]
    pub const PROBE_READ_USER: u32 = 112;
    #[allow(missing_docs)]
    pub const PROBE_READ_KERNEL: u32 = 113;
    #[allow(missing_docs)]
    pub const PROBE_READ_USER_STR: u32 = 114;
    #[allow(missing_docs)]
    pub const PROBE_READ_KERNEL_STR: u32 = 115;
    #[allow(missing_docs)]
    pub const TCP_SEND_ACK: u32 = 116;
    #[allow(missing_docs)]
    pub const SEND_SIGNAL_THREAD: u32 = 117;
    #[allow(missing_docs)]
    pub const JIFFIES64: u32 = 118;
    #[allow(missing_docs)]
    pub const READ_BRANCH_RECORDS: u32 = 119;
    #[allow(missing_docs)]
    pub const GET_NS_CURRENT_PID_TGID: u32 = 120;
    #[allow(missing_docs)]
    pub const XDP_OUTPUT: u32 = 121;
    #[allow(missing_docs)]
    pub const GET_NETNS_COOKIE: u32 = 122;
    #[allow(missing_docs)]
    pub const GET_CURRENT_ANCESTOR_CGROUP_ID: u32 = 123;
    #[allow(missing_docs)]
    pub const SK_ASSIGN: u32 = 124;
    #[allow(missing_docs)]
    pub const KTIME_GET_BOOT_NS: u32 = 125;
    #[allow(missing_docs)]
    pub const SEQ_PRINTF: u32 = 126;
    #[allow(missing_docs)]
    pub const SEQ_WRITE: u32 = 127;
    #[allow(missing_docs)]
    pub const SK_CGROUP_ID: u32 = 128;
    #[allow(missing_docs)]
    pub const SK_ANCESTOR_CGROUP_ID: u32 = 129;
    #[allow(missing_docs)]
    pub const RINGBUF_OUTPUT: u32 = 130;
    #[allow(missing_docs)]
    pub const RINGBUF_RESERVE: u32 = 131;
    #[allow(missing_docs)]
    pub const RINGBUF_SUBMIT: u32 = 132;
    #[allow(missing_docs)]
    pub const RINGBUF_DISCARD: u32 = 133;
    #[allow(missing_docs)]
    pub const RINGBUF_QUERY: u32 = 134;
    #[allow(missing_docs)]
    pub const CSUM_LEVEL: u32 = 135;
    #[allow(missing_docs)]
    pub const SKC_TO_TCP6_SOCK: u32 = 136;
    #[allow(missing_docs)]
    pub const SKC_TO_TCP_SOCK: u32 = 137;
    #[allow(missing_docs)]
    pub const SKC_TO_TCP_TIMEWAIT_SOCK: u32 = 138;
    #[allow(missing_docs)]
    pub const SKC_TO_TCP_REQUEST_SOCK: u32 = 139;
    #[allow(missing_docs)]
    pub const SKC_TO_UDP6_SOCK: u32 = 140;
    #[allow(missing_docs)]
    pub const GET_TASK_STACK: u32 = 141;
    #[allow(missing_docs)]
    pub const LOAD_HDR_OPT: u32 = 142;
    #[allow(missing_docs)]
    pub const STORE_HDR_OPT: u32 = 143;
    #[allow(missing_docs)]
    pub const RESERVE_HDR_OPT: u32 = 144;
    #[allow(missing_docs)]
    pub const INODE_STORAGE_GET: u32 = 145;
    #[allow(missing_docs)]
    pub const INODE_STORAGE_DELETE: u32 = 146;
    #[allow(missing_docs)]
    pub const D_PATH: u32 = 147;
    #[allow(missing_docs)]
    pub const COPY_FROM_USER: u32 = 148;
    #[allow(missing_docs)]
    pub const SNPRINTF_BTF: u32 = 149;
    #[allow(missing_docs)]
    pub const SEQ_PRINTF_BTF: u32 = 150;
    #[allow(missing_docs)]
    pub const SKB_CGROUP_CLASSID: u32 = 151;
    #[allow(missing_docs)]
    pub const REDIRECT_NEIGH: u32 = 152;
    #[allow(missing_docs)]
    pub const PER_CPU_PTR: u32 = 153;
    #[allow(missing_docs)]
    pub const THIS_CPU_PTR: u32 = 154;
    #[allow(missing_docs)]
    pub const REDIRECT_PEER: u32 = 155;
    #[allow(missing_docs)]
    pub const TASK_STORAGE_GET: u32 = 156;
    #[allow(missing_docs)]
    pub const TASK_STORAGE_DELETE: u32 = 157;
    #[allow(missing_docs)]
    pub const GET_CURRENT_TASK_BTF: u32 = 158;
    #[allow(missing_docs)]
    pub const BPRM_OPTS_SET: u32 = 159;
    #[allow(missing_docs)]
    pub const KTIME_GET_COARSE_NS: u32 = 160;
    #[allow(missing_docs)]
    pub const IMA_INODE_HASH: u32 = 161;
    #[allow(missing_docs)]
    pub const SOCK_FROM_FILE: u32 = 162;
    #[allow(missing_docs)]
    pub const CHECK_MTU: u32 = 163;
    #[allow(missing_docs)]
    pub const FOR_EACH_MAP_ELEM: u32 = 164;
    #[allow(missing_docs)]
    pub const SNPRINTF: u32 = 165;
    #[allow(missing_docs)]
    pub const SYS_BPF: u32 = 166;
    #[allow(missing_docs)]
    pub const BTF_FIND_BY_NAME_KIND: u32 = 167;
    #[allow(missing_docs)]
    pub const SYS_CLOSE: u32 = 168;
    #[allow(missing_docs)]
    pub const TIMER_INIT: u32 = 169;
    #[allow(missing_docs)]
    pub const TIMER_SET_CALLBACK: u32 = 170;
    #[allow(missing_docs)]
    pub const TIMER_START: u32 = 171;
    #[allow(missing_docs)]
    pub const TIMER_CANCEL: u32 = 172;
    #[allow(missing_docs)]
    pub const GET_FUNC_IP: u32 = 173;
    #[allow(missing_docs)]
    pub const GET_ATTACH_COOKIE: u32 = 174;
    #[allow(missing_docs)]
    pub const TASK_PT_REGS: u32 = 175;
    #[allow(missing_docs)]
    pub const GET_BRANCH_SNAPSHOT: u32 = 176;
    #[allow(missing_docs)]
    pub const TRACE_VPRINTK: u32 = 177;
    #[allow(missing_docs)]
    pub const SKC_TO_UNIX_SOCK: u32 = 178;
    #[allow(missing_docs)]
    pub const KALLSYMS_LOOKUP_NAME: u32 = 179;
    #[allow(missing_docs)]
    pub const FIND_VMA: u32 = 180;
    #[allow(missing_docs)]
    pub const LOOP: u32 = 181;
    #[allow(missing_docs)]
    pub const STRNCMP: u32 = 182;
    #[allow(missing_docs)]
    pub const GET_FUNC_ARG: u32 = 183;
    #[allow(missing_docs)]
    pub const GET_FUNC_RET: u32 = 184;
    #[allow(missing_docs)]
    pub const GET_FUNC_ARG_CNT: u32 = 185;
    #[allow(missing_docs)]
    pub const GET_RETVAL: u32 = 186;
    #[allow(missing_docs)]
    pub const SET_RETVAL: u32 = 187;
    #[allow(missing_docs)]
    pub const XDP_GET_BUFF_LEN: u32 = 188;
    #[allow(missing_docs)]
    pub const XDP_LOAD_BYTES: u32 = 189;
    #[allow(missing_docs)]
    pub const XDP_STORE_BYTES: u32 = 190;
    #[allow(missing_docs)]
    pub const COPY_FROM_USER_TASK: u32 = 191;
    #[allow(missing_docs)]
    pub const SKB_SET_TSTAMP: u32 = 192;
    #[allow(missing_docs)]
    pub const IMA_FILE_HASH: u32 = 193;
    #[allow(missing_docs)]
    pub const KPTR_XCHG: u32 = 194;
    #[allow(missing_docs)]
    pub const MAP_LOOKUP_PERCPU_ELEM: u32 = 195;
    #[allow(missing_docs)]
    pub const SKC_TO_MPTCP_SOCK: u32 = 196;
    #[allow(missing_docs)]
    pub const DYNPTR_FROM_MEM: u32 = 197;
    #[allow(missing_docs)]
    pub const RINGBUF_RESERVE_DYNPTR: u32 = 198;
    #[allow(missing_docs)]
    pub const RINGBUF_SUBMIT_DYNPTR: u32 = 199;
    #[allow(missing_docs)]
    pub const RINGBUF_DISCARD_DYNPTR: u32 = 200;
    #[allow(missing_docs)]
    pub const DYNPTR_READ: u32 = 201;
    #[allow(missing_docs)]
    pub const DYNPTR_WRITE: u32 = 202;
    #[allow(missing_docs)]
    pub const DYNPTR_DATA: u32 = 203;
    #[allow(missing_docs)]
    pub const TCP_RAW_GEN_SYNCOOKIE_IPV4: u32 = 204;
    #[allow(missing_docs)]
    pub const TCP_RAW_GEN_SYNCOOKIE_IPV6: u32 = 205;
    #[allow(missing_docs)]
    pub const TCP_RAW_CHECK_SYNCOOKIE_IPV4: u32 = 206;
    #[allow(missing_docs)]
    pub const TCP_RAW_CHECK_SYNCOOKIE_IPV6: u32 = 207;
    #[allow(missing_docs)]
    pub const KTIME_GET_TAI_NS: u32 = 208;
    #[allow(missing_docs)]
    pub const USER_RINGBUF_DRAIN: u32 = 209;
    #[allow(missing_docs)]
    pub const CGRP_STORAGE_GET: u32 = 210;
    #[allow(missing_docs)]
    pub const CGRP_STORAGE_DELETE: u32 = 211;
}

use Argument::{Context as C, Map as M, Pointer as P, Scalar as S};
use Returned::{Nothing, Pointer, Scalar};

const fn row(
    id: u32,
    name: &'static str,
    arguments: &'static [Argument],
    returned: Returned,
    since: Option<Version>,
) -> Helper {
    Helper { id, name, arguments, returned, since }
}

/// All helpers, by number from 1. The list is closed: newer kernel functions are kfuncs.
pub const HELPERS: &[Helper] = &[
    row(1, "map_lookup_elem", &[M, P], Pointer, Some(Version(3, 19, 0))),
    row(2, "map_update_elem", &[M, P, P, S], Scalar, Some(Version(3, 19, 0))),
    row(3, "map_delete_elem", &[M, P], Scalar, Some(Version(3, 19, 0))),
    row(4, "probe_read", &[P, S, P], Scalar, Some(Version(4, 1, 0))),
    row(5, "ktime_get_ns", &[], Scalar, Some(Version(4, 1, 0))),
    row(6, "trace_printk", &[P, S, S], Scalar, Some(Version(4, 1, 0))),
    row(7, "get_prandom_u32", &[], Scalar, Some(Version(4, 1, 0))),
    row(8, "get_smp_processor_id", &[], Scalar, Some(Version(4, 1, 0))),
    row(9, "skb_store_bytes", &[C, S, P, S, S], Scalar, None),
    row(10, "l3_csum_replace", &[C, S, S, S, S], Scalar, None),
    row(11, "l4_csum_replace", &[C, S, S, S, S], Scalar, None),
    row(12, "tail_call", &[C, M, S], Scalar, Some(Version(4, 2, 0))),
    row(13, "clone_redirect", &[C, S, S], Scalar, None),
    row(14, "get_current_pid_tgid", &[], Scalar, Some(Version(4, 2, 0))),
    row(15, "get_current_uid_gid", &[], Scalar, Some(Version(4, 2, 0))),
    row(16, "get_current_comm", &[P, S], Scalar, Some(Version(4, 2, 0))),
    row(17, "get_cgroup_classid", &[C], Scalar, None),
    row(18, "skb_vlan_push", &[C, S, S], Scalar, None),
    row(19, "skb_vlan_pop", &[C], Scalar, None),
    row(20, "skb_get_tunnel_key", &[C, P, S, S], Scalar, None),
    row(21, "skb_set_tunnel_key", &[C, P, S, S], Scalar, None),
    row(22, "perf_event_read", &[M, S], Scalar, Some(Version(4, 3, 0))),
    row(23, "redirect", &[S, S], Scalar, None),
    row(24, "get_route_realm", &[C], Scalar, None),
    row(25, "perf_event_output", &[C, M, S, P, S], Scalar, Some(Version(4, 4, 0))),
    row(26, "skb_load_bytes", &[P, S, P, S], Scalar, None),
    row(27, "get_stackid", &[C, M, S], Scalar, Some(Version(4, 6, 0))),
    row(28, "csum_diff", &[P, S, P, S, S], Scalar, None),
    row(29, "skb_get_tunnel_opt", &[C, P, S], Scalar, None),
    row(30, "skb_set_tunnel_opt", &[C, P, S], Scalar, None),
    row(31, "skb_change_proto", &[C, S, S], Scalar, None),
    row(32, "skb_change_type", &[C, S], Scalar, None),
    row(33, "skb_under_cgroup", &[C, M, S], Scalar, None),
    row(34, "get_hash_recalc", &[C], Scalar, None),
    row(35, "get_current_task", &[], Scalar, Some(Version(4, 8, 0))),
    row(36, "probe_write_user", &[P, P, S], Scalar, Some(Version(4, 8, 0))),
    row(37, "current_task_under_cgroup", &[M, S], Scalar, Some(Version(4, 9, 0))),
    row(38, "skb_change_tail", &[C, S, S], Scalar, None),
    row(39, "skb_pull_data", &[C, S], Scalar, None),
    row(40, "csum_update", &[C, S], Scalar, None),
    row(41, "set_hash_invalid", &[C], Nothing, None),
    row(42, "get_numa_node_id", &[], Scalar, Some(Version(4, 10, 0))),
    row(43, "skb_change_head", &[C, S, S], Scalar, None),
    row(44, "xdp_adjust_head", &[C, S], Scalar, None),
    row(45, "probe_read_str", &[P, S, P], Scalar, Some(Version(4, 11, 0))),
    row(46, "get_socket_cookie", &[C], Scalar, Some(Version(4, 12, 0))),
    row(47, "get_socket_uid", &[C], Scalar, None),
    row(48, "set_hash", &[C, S], Scalar, None),
    row(49, "setsockopt", &[P, S, S, P, S], Scalar, None),
    row(50, "skb_adjust_room", &[C, S, S, S], Scalar, None),
    row(51, "redirect_map", &[M, S, S], Scalar, None),
    row(52, "sk_redirect_map", &[C, M, S, S], Scalar, None),
    row(53, "sock_map_update", &[C, M, P, S], Scalar, None),
    row(54, "xdp_adjust_meta", &[C, S], Scalar, None),
    row(55, "perf_event_read_value", &[M, S, P, S], Scalar, Some(Version(4, 15, 0))),
    row(56, "perf_prog_read_value", &[C, P, S], Scalar, Some(Version(4, 15, 0))),
    row(57, "getsockopt", &[P, S, S, P, S], Scalar, None),
    row(58, "override_return", &[C, S], Scalar, Some(Version(4, 16, 0))),
    row(59, "sock_ops_cb_flags_set", &[C, S], Scalar, None),
    row(60, "msg_redirect_map", &[C, M, S, S], Scalar, None),
    row(61, "msg_apply_bytes", &[C, S], Scalar, None),
    row(62, "msg_cork_bytes", &[C, S], Scalar, None),
    row(63, "msg_pull_data", &[C, S, S, S], Scalar, None),
    row(64, "bind", &[C, P, S], Scalar, None),
    row(65, "xdp_adjust_tail", &[C, S], Scalar, None),
    row(66, "skb_get_xfrm_state", &[C, S, P, S, S], Scalar, None),
    row(67, "get_stack", &[C, P, S, S], Scalar, Some(Version(4, 18, 0))),
    row(68, "skb_load_bytes_relative", &[P, S, P, S, S], Scalar, None),
    row(69, "fib_lookup", &[C, P, S, S], Scalar, None),
    row(70, "sock_hash_update", &[C, M, P, S], Scalar, None),
    row(71, "msg_redirect_hash", &[C, M, P, S], Scalar, None),
    row(72, "sk_redirect_hash", &[C, M, P, S], Scalar, None),
    row(73, "lwt_push_encap", &[C, S, P, S], Scalar, None),
    row(74, "lwt_seg6_store_bytes", &[C, S, P, S], Scalar, None),
    row(75, "lwt_seg6_adjust_srh", &[C, S, S], Scalar, None),
    row(76, "lwt_seg6_action", &[C, S, P, S], Scalar, None),
    row(77, "rc_repeat", &[C], Scalar, None),
    row(78, "rc_keydown", &[C, S, S, S], Scalar, None),
    row(79, "skb_cgroup_id", &[C], Scalar, None),
    row(80, "get_current_cgroup_id", &[], Scalar, Some(Version(4, 18, 0))),
    row(81, "get_local_storage", &[P, S], Pointer, None),
    row(82, "sk_select_reuseport", &[C, M, P, S], Scalar, None),
    row(83, "skb_ancestor_cgroup_id", &[C, S], Scalar, None),
    row(84, "sk_lookup_tcp", &[C, P, S, S, S], Pointer, None),
    row(85, "sk_lookup_udp", &[C, P, S, S, S], Pointer, None),
    row(86, "sk_release", &[P], Scalar, None),
    row(87, "map_push_elem", &[M, P, S], Scalar, None),
    row(88, "map_pop_elem", &[M, P], Scalar, None),
    row(89, "map_peek_elem", &[M, P], Scalar, None),
    row(90, "msg_push_data", &[C, S, S, S], Scalar, None),
    row(91, "msg_pop_data", &[C, S, S, S], Scalar, None),
    row(92, "rc_pointer_rel", &[C, S, S], Scalar, None),
    row(93, "spin_lock", &[P], Scalar, Some(Version(5, 1, 0))),
    row(94, "spin_unlock", &[P], Scalar, None),
    row(95, "sk_fullsock", &[P], Pointer, None),
    row(96, "tcp_sock", &[P], Pointer, None),
    row(97, "skb_ecn_set_ce", &[C], Scalar, None),
    row(98, "get_listener_sock", &[P], Pointer, None),
    row(99, "skc_lookup_tcp", &[C, P, S, S, S], Pointer, None),
    row(100, "tcp_check_syncookie", &[P, P, S, P, S], Scalar, None),
    row(101, "sysctl_get_name", &[C, P, S, S], Scalar, None),
    row(102, "sysctl_get_current_value", &[C, P, S], Scalar, None),
    row(103, "sysctl_get_new_value", &[C, P, S], Scalar, None),
    row(104, "sysctl_set_new_value", &[C, P, S], Scalar, None),
    row(105, "strtol", &[P, S, S, P], Scalar, Some(Version(5, 2, 0))),
    row(106, "strtoul", &[P, S, S, P], Scalar, Some(Version(5, 2, 0))),
    row(107, "sk_storage_get", &[M, P, P, S], Pointer, None),
    row(108, "sk_storage_delete", &[M, P], Scalar, None),
    row(109, "send_signal", &[S], Scalar, Some(Version(5, 3, 0))),
    row(110, "tcp_gen_syncookie", &[P, P, S, P, S], Scalar, None),
    row(111, "skb_output", &[C, M, S, P, S], Scalar, Some(Version(5, 5, 0))),
    row(112, "probe_read_user", &[P, S, P], Scalar, Some(Version(5, 5, 0))),
    row(113, "probe_read_kernel", &[P, S, P], Scalar, Some(Version(5, 5, 0))),
    row(114, "probe_read_user_str", &[P, S, P], Scalar, Some(Version(5, 5, 0))),
    row(115, "probe_read_kernel_str", &[P, S, P], Scalar, Some(Version(5, 5, 0))),
    row(116, "tcp_send_ack", &[P, S], Scalar, None),
    row(117, "send_signal_thread", &[S], Scalar, Some(Version(5, 5, 0))),
    row(118, "jiffies64", &[], Scalar, Some(Version(5, 5, 0))),
    row(119, "read_branch_records", &[C, P, S, S], Scalar, Some(Version(5, 6, 0))),
    row(120, "get_ns_current_pid_tgid", &[S, S, P, S], Scalar, Some(Version(5, 7, 0))),
    row(121, "xdp_output", &[C, M, S, P, S], Scalar, None),
    row(122, "get_netns_cookie", &[C], Scalar, None),
    row(123, "get_current_ancestor_cgroup_id", &[S], Scalar, Some(Version(5, 6, 0))),
    row(124, "sk_assign", &[C, P, S], Scalar, None),
    row(125, "ktime_get_boot_ns", &[], Scalar, Some(Version(5, 8, 0))),
    row(126, "seq_printf", &[P, P, S, P, S], Scalar, Some(Version(5, 7, 0))),
    row(127, "seq_write", &[P, P, S], Scalar, Some(Version(5, 7, 0))),
    row(128, "sk_cgroup_id", &[P], Scalar, None),
    row(129, "sk_ancestor_cgroup_id", &[P, S], Scalar, None),
    row(130, "ringbuf_output", &[P, P, S, S], Scalar, Some(Version(5, 8, 0))),
    row(131, "ringbuf_reserve", &[P, S, S], Pointer, Some(Version(5, 8, 0))),
    row(132, "ringbuf_submit", &[P, S], Nothing, Some(Version(5, 8, 0))),
    row(133, "ringbuf_discard", &[P, S], Nothing, Some(Version(5, 8, 0))),
    row(134, "ringbuf_query", &[P, S], Scalar, Some(Version(5, 8, 0))),
    row(135, "csum_level", &[C, S], Scalar, None),
    row(136, "skc_to_tcp6_sock", &[P], Pointer, None),
    row(137, "skc_to_tcp_sock", &[P], Pointer, None),
    row(138, "skc_to_tcp_timewait_sock", &[P], Pointer, None),
    row(139, "skc_to_tcp_request_sock", &[P], Pointer, None),
    row(140, "skc_to_udp6_sock", &[P], Pointer, None),
    row(141, "get_task_stack", &[P, P, S, S], Scalar, Some(Version(5, 9, 0))),
    row(142, "load_hdr_opt", &[C, P, S, S], Scalar, None),
    row(143, "store_hdr_opt", &[C, P, S, S], Scalar, None),
    row(144, "reserve_hdr_opt", &[C, S, S], Scalar, None),
    row(145, "inode_storage_get", &[M, P, P, S], Pointer, None),
    row(146, "inode_storage_delete", &[M, P], Scalar, None),
    row(147, "d_path", &[P, P, S], Scalar, Some(Version(5, 10, 0))),
    row(148, "copy_from_user", &[P, S, P], Scalar, Some(Version(5, 10, 0))),
    row(149, "snprintf_btf", &[P, S, P, S, S], Scalar, Some(Version(5, 10, 0))),
    row(150, "seq_printf_btf", &[P, P, S, S], Scalar, Some(Version(5, 10, 0))),
    row(151, "skb_cgroup_classid", &[C], Scalar, None),
    row(152, "redirect_neigh", &[S, P, S, S], Scalar, None),
    row(153, "per_cpu_ptr", &[P, S], Pointer, Some(Version(5, 10, 0))),
    row(154, "this_cpu_ptr", &[P], Pointer, Some(Version(5, 10, 0))),
    row(155, "redirect_peer", &[S, S], Scalar, None),
    row(156, "task_storage_get", &[M, P, P, S], Pointer, Some(Version(5, 11, 0))),
    row(157, "task_storage_delete", &[M, P], Scalar, None),
    row(158, "get_current_task_btf", &[], Pointer, Some(Version(5, 11, 0))),
    row(159, "bprm_opts_set", &[P, S], Scalar, None),
    row(160, "ktime_get_coarse_ns", &[], Scalar, Some(Version(5, 11, 0))),
    row(161, "ima_inode_hash", &[P, P, S], Scalar, None),
    row(162, "sock_from_file", &[P], Pointer, None),
    row(163, "check_mtu", &[C, S, P, S, S], Scalar, None),
    row(164, "for_each_map_elem", &[M, P, P, S], Scalar, Some(Version(5, 13, 0))),
    row(165, "snprintf", &[P, S, P, P, S], Scalar, Some(Version(5, 13, 0))),
    row(166, "sys_bpf", &[S, P, S], Scalar, Some(Version(5, 14, 0))),
    row(167, "btf_find_by_name_kind", &[P, S, S, S], Scalar, Some(Version(5, 14, 0))),
    row(168, "sys_close", &[S], Scalar, None),
    row(169, "timer_init", &[P, M, S], Scalar, Some(Version(5, 15, 0))),
    row(170, "timer_set_callback", &[P, P], Scalar, None),
    row(171, "timer_start", &[P, S, S], Scalar, None),
    row(172, "timer_cancel", &[P], Scalar, None),
    row(173, "get_func_ip", &[C], Scalar, Some(Version(5, 15, 0))),
    row(174, "get_attach_cookie", &[C], Scalar, Some(Version(5, 15, 0))),
    row(175, "task_pt_regs", &[P], Scalar, Some(Version(5, 15, 0))),
    row(176, "get_branch_snapshot", &[P, S, S], Scalar, Some(Version(5, 16, 0))),
    row(177, "trace_vprintk", &[P, S, P, S], Scalar, Some(Version(5, 16, 0))),
    row(178, "skc_to_unix_sock", &[P], Pointer, None),
    row(179, "kallsyms_lookup_name", &[P, S, S, P], Scalar, Some(Version(5, 16, 0))),
    row(180, "find_vma", &[P, S, P, P, S], Scalar, Some(Version(5, 17, 0))),
    row(181, "loop", &[S, P, P, S], Scalar, Some(Version(5, 17, 0))),
    row(182, "strncmp", &[P, S, P], Scalar, Some(Version(5, 17, 0))),
    row(183, "get_func_arg", &[C, S, P], Scalar, Some(Version(5, 17, 0))),
    row(184, "get_func_ret", &[C, P], Scalar, Some(Version(5, 17, 0))),
    row(185, "get_func_arg_cnt", &[C], Scalar, Some(Version(5, 17, 0))),
    row(186, "get_retval", &[], Scalar, None),
    row(187, "set_retval", &[S], Scalar, None),
    row(188, "xdp_get_buff_len", &[C], Scalar, None),
    row(189, "xdp_load_bytes", &[C, S, P, S], Scalar, None),
    row(190, "xdp_store_bytes", &[C, S, P, S], Scalar, None),
    row(191, "copy_from_user_task", &[P, S, P, P, S], Scalar, Some(Version(5, 18, 0))),
    row(192, "skb_set_tstamp", &[C, S, S], Scalar, None),
    row(193, "ima_file_hash", &[P, P, S], Scalar, None),
    row(194, "kptr_xchg", &[P, P], Pointer, Some(Version(5, 19, 0))),
    row(195, "map_lookup_percpu_elem", &[M, P, S], Pointer, Some(Version(5, 19, 0))),
    row(196, "skc_to_mptcp_sock", &[P], Pointer, None),
    row(197, "dynptr_from_mem", &[P, S, S, P], Scalar, Some(Version(5, 19, 0))),
    row(198, "ringbuf_reserve_dynptr", &[P, S, S, P], Scalar, Some(Version(5, 19, 0))),
    row(199, "ringbuf_submit_dynptr", &[P, S], Nothing, None),
    row(200, "ringbuf_discard_dynptr", &[P, S], Nothing, None),
    row(201, "dynptr_read", &[P, S, P, S, S], Scalar, None),
    row(202, "dynptr_write", &[P, S, P, S, S], Scalar, None),
    row(203, "dynptr_data", &[P, S, S], Pointer, None),
    row(204, "tcp_raw_gen_syncookie_ipv4", &[P, P, S], Scalar, None),
    row(205, "tcp_raw_gen_syncookie_ipv6", &[P, P, S], Scalar, None),
    row(206, "tcp_raw_check_syncookie_ipv4", &[P, P], Scalar, None),
    row(207, "tcp_raw_check_syncookie_ipv6", &[P, P], Scalar, None),
    row(208, "ktime_get_tai_ns", &[], Scalar, Some(Version(6, 1, 0))),
    row(209, "user_ringbuf_drain", &[M, P, C, S], Scalar, Some(Version(6, 1, 0))),
    row(210, "cgrp_storage_get", &[M, P, P, S], Pointer, Some(Version(6, 2, 0))),
    row(211, "cgrp_storage_delete", &[M, P], Scalar, Some(Version(6, 2, 0))),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_positions() {
        for (at, helper) in HELPERS.iter().enumerate() {
            assert_eq!(helper.id as usize, at + 1, "{}", helper.name);
            assert!(helper.arguments.len() <= 5);
            assert_eq!(by_name(helper.name), Some(helper));
        }
        assert_eq!(by_name("bpf_map_lookup_elem").map(|h| h.id), Some(1));
        assert_eq!(by_id(id::LOOP).map(|h| h.name), Some("loop"));
        assert!(by_id(0).is_none() && by_id(9999).is_none());
    }
}
