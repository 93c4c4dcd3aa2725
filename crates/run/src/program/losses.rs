//! What a run kept and what it lost, from the counters that every program carries.

use lang::schema::{Counter, ProgramId};

use super::compiled::Compiled;
use super::contents::Maps;

/// The account of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// One for each program, in the order of the text.
    pub programs: Vec<ProgramAccount>,
    /// What was lost, as sentences that end with what would mend it.
    pub losses: Vec<String>,
    /// Records that the ring had no room for.
    pub ring_lost: u64,
}

/// How often a program ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramAccount {
    /// Name.
    pub name: String,
    /// Times its probe fired.
    pub seen: u64,
    /// Times its predicate was false.
    pub filtered: u64,
}

impl Account {
    /// Reads the counters.
    pub fn take(compiled: &Compiled, maps: Maps<'_>) -> Account {
        let schema = &compiled.schema;
        let mut account = Account {
            programs: schema
                .programs
                .iter()
                .map(|program| ProgramAccount { name: program.name.clone(), seen: 0, filtered: 0 })
                .collect(),
            ..Account::default()
        };
        let where_shown = if schema.config.report_helper_errors { "" } else { "; `-k` shows where" };
        for (index, counter) in schema.counters.iter().enumerate() {
            let count = maps.counter(index);
            if count == 0 {
                continue;
            }
            let of = |account: &mut Account, id: ProgramId, add: fn(&mut ProgramAccount, u64)| {
                if let Some(program) = account.programs.get_mut(id.0 as usize) {
                    add(program, count);
                }
            };
            let map_at = |id: lang::schema::MapId| {
                let map = &schema.maps[id.0 as usize];
                (map, compiled.place(map.span))
            };
            match *counter {
                Counter::Seen(id) => of(&mut account, id, |program, count| program.seen = count),
                Counter::Filtered(id) => of(&mut account, id, |program, count| program.filtered = count),
                Counter::MapFull(id) => {
                    let (map, place) = map_at(id);
                    account.losses.push(format!(
                        "{count} updates of {} ({place}) were refused: its {} entries are all taken; raise it with `config = {{ max_map_keys = N }}` or `let {} = hash(N);`",
                        map.name, map.capacity, map.name
                    ));
                }
                Counter::MapFailed(id) => {
                    let (map, place) = map_at(id);
                    account.losses.push(format!(
                        "{count} updates of {} ({place}) failed: the kernel had no memory or the entry was busy; fewer keys or a higher memory limit of the cgroup help",
                        map.name
                    ));
                }
                Counter::RingFull(id) => {
                    let place = compiled.place(schema.records[id.0 as usize].span);
                    account.ring_lost += count;
                    account.losses.push(format!(
                        "{count} records of the call at {place} were lost: the ring was full; raise it with `config = {{ perf_rb_pages = N }}`, filter earlier or aggregate in a map",
                    ));
                }
                Counter::StackLost => account.losses.push(format!(
                    "{count} stacks were lost: they could not be walked, or their map is full; raise it with `config = {{ max_map_keys = N }}`",
                )),
                Counter::DividedByZero => {
                    account.losses.push(format!("{count} divisions by zero gave 1 instead{where_shown}"));
                }
                Counter::ReadFailed => account.losses.push(format!(
                    "{count} reads of memory failed and gave zero: the page was not present or the address was bad{where_shown}",
                )),
            }
        }
        account
    }
}
