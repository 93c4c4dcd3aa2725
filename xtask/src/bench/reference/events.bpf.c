// The programs of the `events` benchmark as a careful C programmer writes them: attached
// by BTF, lookups before updates, per-CPU values.
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "GPL";

#define NR_GETPPID 110

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} total SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 10240);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u64);
	__type(value, u64);
} by_pid SEC(".maps");

struct comm_key { char comm[16]; };
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 10240);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct comm_key);
	__type(value, u64);
} by_comm SEC(".maps");

struct buckets { u64 count[65]; };
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct buckets);
} spread SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 10240);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u64);
	__type(value, u64);
} begun SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_STACK_TRACE);
	__uint(max_entries, 16384);
	__uint(key_size, 4);
	__uint(value_size, 127 * 8);
} stacks SEC(".maps");

static __always_inline void add_spread(u64 value)
{
	u32 zero = 0, slot = 0;
	struct buckets *buckets = bpf_map_lookup_elem(&spread, &zero);
	if (!buckets)
		return;
	if (value) {
		if (value >> 32) { slot += 32; value >>= 32; }
		if (value >> 16) { slot += 16; value >>= 16; }
		if (value >> 8) { slot += 8; value >>= 8; }
		if (value >> 4) { slot += 4; value >>= 4; }
		if (value >> 2) { slot += 2; value >>= 2; }
		if (value >> 1) slot += 1;
		slot += 1;
	}
	if (slot < 65)
		buckets->count[slot]++;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(count, struct pt_regs *regs, long id)
{
	u32 zero = 0;
	if (id != NR_GETPPID)
		return 0;
	u64 *value = bpf_map_lookup_elem(&total, &zero);
	if (value)
		(*value)++;
	return 0;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(count_by_pid, struct pt_regs *regs, long id)
{
	u64 one = 1, key, *value;
	if (id != NR_GETPPID)
		return 0;
	key = bpf_get_current_pid_tgid() >> 32;
	value = bpf_map_lookup_elem(&by_pid, &key);
	if (value)
		(*value)++;
	else
		bpf_map_update_elem(&by_pid, &key, &one, BPF_NOEXIST);
	return 0;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(count_by_comm, struct pt_regs *regs, long id)
{
	u64 one = 1, *value;
	struct comm_key key = {};
	if (id != NR_GETPPID)
		return 0;
	bpf_get_current_comm(&key, sizeof(key));
	value = bpf_map_lookup_elem(&by_comm, &key);
	if (value)
		(*value)++;
	else
		bpf_map_update_elem(&by_comm, &key, &one, BPF_NOEXIST);
	return 0;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(hist, struct pt_regs *regs, long id)
{
	if (id != NR_GETPPID)
		return 0;
	add_spread(bpf_ktime_get_ns() & 0xffff);
	return 0;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(pair, struct pt_regs *regs, long id)
{
	if (id != NR_GETPPID)
		return 0;
	u64 key = (u32)bpf_get_current_pid_tgid(), now = bpf_ktime_get_ns();
	bpf_map_update_elem(&begun, &key, &now, BPF_ANY);
	return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(pair_end, struct pt_regs *regs, long ret)
{
	if (regs->orig_ax != NR_GETPPID)
		return 0;
	u64 key = (u32)bpf_get_current_pid_tgid();
	u64 *since = bpf_map_lookup_elem(&begun, &key);
	if (!since)
		return 0;
	add_spread(bpf_ktime_get_ns() - *since);
	bpf_map_delete_elem(&begun, &key);
	return 0;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(count_by_stack, struct pt_regs *regs, long id)
{
	u64 one = 1, *value;
	if (id != NR_GETPPID)
		return 0;
	long stack = bpf_get_stackid(ctx, &stacks, 0);
	u64 key = stack;
	if (stack < 0)
		return 0;
	value = bpf_map_lookup_elem(&by_pid, &key);
	if (value)
		(*value)++;
	else
		bpf_map_update_elem(&by_pid, &key, &one, BPF_NOEXIST);
	return 0;
}
