//! Settings of a program: the `config` block, the environment's spellings, the defaults.

use crate::types::StackMode;

/// What to do about a probe that does not exist or cannot be attached.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MissingProbes {
    /// Stop.
    #[default]
    Error,
    /// Say so and go on.
    Warn,
    /// Go on.
    Ignore,
}

/// How the symbols of user processes are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SymbolCache {
    /// For each process.
    #[default]
    PerPid,
    /// For each program.
    PerProgram,
    /// Not at all.
    None,
}

/// Settings as they took effect.
#[derive(Clone, PartialEq, Debug)]
pub struct Config {
    /// Bytes of strings made by `str()`, `buf()` and `path()`.
    pub max_strlen: u32,
    /// Entries of a map without a declaration.
    pub max_map_keys: u32,
    /// Most probes attached.
    pub max_probes: u32,
    /// Most programs made.
    pub max_bpf_progs: u32,
    /// Bytes that `cat` prints.
    pub max_cat_bytes: u32,
    /// Bytes of the verifier's log.
    pub log_size: u32,
    /// Pages of the ring; 0: by the machine's memory.
    pub perf_rb_pages: u32,
    /// Format of stacks.
    pub stack_mode: StackMode,
    /// What a missing probe means.
    pub missing_probes: MissingProbes,
    /// Whether maps print at the end.
    pub print_maps_on_exit: bool,
    /// Put after a text that was cut.
    pub str_trunc_trailer: String,
    /// Licence told to the kernel.
    pub license: String,
    /// Whether C++ names are demangled.
    pub cpp_demangle: bool,
    /// Whether user symbols are looked up when printed only.
    pub lazy_symbolication: bool,
    /// Whether stacks show files and lines.
    pub show_debug_info: bool,
    /// How user symbols are kept.
    pub cache_user_symbols: SymbolCache,
    /// Whether failures of the kernel's helpers are reported with their place (`-k`).
    pub report_helper_errors: bool,
    /// Largest object kept on the BPF stack; accepted for bpftrace's sake, the compiler decides itself.
    pub on_stack_limit: u32,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            max_strlen: 1024,
            max_map_keys: 4096,
            max_probes: 1024,
            max_bpf_progs: 1024,
            max_cat_bytes: 10240,
            log_size: 1_000_000,
            perf_rb_pages: 0,
            stack_mode: StackMode::Bpftrace,
            missing_probes: MissingProbes::Error,
            print_maps_on_exit: true,
            str_trunc_trailer: "..".into(),
            license: "GPL".into(),
            cpp_demangle: true,
            lazy_symbolication: false,
            show_debug_info: true,
            cache_user_symbols: SymbolCache::PerPid,
            report_helper_errors: false,
            on_stack_limit: 32,
        }
    }
}

/// A value as a `config` block or the environment gives it.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// A number (booleans are 0 and 1).
    Number(u64),
    /// A word or string.
    Text(String),
}

impl Value {
    /// A value from the environment, where everything is text.
    pub fn from_text(text: &str) -> Value {
        text.parse().map_or_else(|_| Value::Text(text.into()), Value::Number)
    }

    fn number(&self) -> Result<u64, String> {
        match self {
            Value::Number(n) => Ok(*n),
            Value::Text(text) => text.parse().map_err(|_| format!("needs a number, not '{text}'")),
        }
    }

    fn in_range(&self, range: std::ops::RangeInclusive<u32>) -> Result<u32, String> {
        let n = self.number()?;
        match u32::try_from(n) {
            Ok(n) if range.contains(&n) => Ok(n),
            _ => Err(format!("has to be between {} and {}, not {n}", range.start(), range.end())),
        }
    }

    fn boolean(&self) -> Result<bool, String> {
        match self {
            Value::Number(0) => Ok(false),
            Value::Number(1) => Ok(true),
            Value::Text(text) if text.eq_ignore_ascii_case("true") => Ok(true),
            Value::Text(text) if text.eq_ignore_ascii_case("false") => Ok(false),
            Value::Number(n) => Err(format!("has to be true or false, not {n}")),
            Value::Text(text) => Err(format!("has to be true or false, not '{text}'")),
        }
    }

    fn text(&self) -> String {
        match self {
            Value::Number(n) => n.to_string(),
            Value::Text(text) => text.clone(),
        }
    }

    fn one_of<T: Copy>(&self, choices: &[(&str, T)]) -> Result<T, String> {
        let text = self.text();
        match choices.iter().find(|(name, _)| name.eq_ignore_ascii_case(&text)) {
            Some((_, value)) => Ok(*value),
            None => {
                let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
                Err(format!("has to be one of {}, not '{text}'", names.join(", ")))
            }
        }
    }
}

/// Sets one variable; the error says what was wrong with the value.
type Set = fn(&mut Config, &Value) -> Result<(), String>;

/// Every variable: its name and how it is set. Names of variables that only gate features of
/// bpftrace are accepted and change nothing.
#[allow(clippy::unit_arg)] // each row is one assignment that may fail
pub const VARIABLES: &[(&str, Set)] = &[
    ("cache_user_symbols", |c, v| {
        let choices = [
            ("PER_PID", SymbolCache::PerPid),
            ("PER_PROGRAM", SymbolCache::PerProgram),
            ("NONE", SymbolCache::None),
            ("1", SymbolCache::PerPid),
            ("0", SymbolCache::None),
        ];
        Ok(c.cache_user_symbols = v.one_of(&choices)?)
    }),
    ("cpp_demangle", |c, v| Ok(c.cpp_demangle = v.boolean()?)),
    ("lazy_symbolication", |c, v| Ok(c.lazy_symbolication = v.boolean()?)),
    ("license", |c, v| Ok(c.license = v.text())),
    ("log_size", |c, v| Ok(c.log_size = v.in_range(1..=u32::MAX >> 2)?)),
    ("max_ast_nodes", |_, v| v.number().map(|_| ())),
    ("max_bpf_progs", |c, v| Ok(c.max_bpf_progs = v.in_range(1..=1_000_000)?)),
    ("max_cat_bytes", |c, v| Ok(c.max_cat_bytes = v.in_range(0..=1 << 30)?)),
    ("max_map_keys", |c, v| Ok(c.max_map_keys = v.in_range(1..=1 << 30)?)),
    ("max_probes", |c, v| Ok(c.max_probes = v.in_range(1..=10_000_000)?)),
    ("max_strlen", |c, v| Ok(c.max_strlen = v.in_range(1..=32 * 1024)?)),
    ("max_type_res_iterations", |_, v| v.number().map(|_| ())),
    ("missing_probes", |c, v| {
        let choices = [
            ("error", MissingProbes::Error),
            ("warn", MissingProbes::Warn),
            ("ignore", MissingProbes::Ignore),
        ];
        Ok(c.missing_probes = v.one_of(&choices)?)
    }),
    ("on_stack_limit", |c, v| Ok(c.on_stack_limit = v.in_range(0..=512)?)),
    ("perf_rb_pages", |c, v| Ok(c.perf_rb_pages = v.in_range(1..=1 << 20)?)),
    ("print_maps_on_exit", |c, v| Ok(c.print_maps_on_exit = v.boolean()?)),
    ("probe_inline", |_, v| v.boolean().map(|_| ())),
    ("show_debug_info", |c, v| Ok(c.show_debug_info = v.boolean()?)),
    ("stack_mode", |c, v| Ok(c.stack_mode = v.one_of(STACK_MODES)?)),
    ("str_trunc_trailer", |c, v| Ok(c.str_trunc_trailer = v.text())),
    ("unstable_addr", unstable),
    ("unstable_import", unstable),
    ("unstable_macro", unstable),
    ("unstable_map_decl", unstable),
    ("unstable_tseries", unstable),
    ("use_blazesym", |_, v| v.boolean().map(|_| ())),
    ("verify_llvm_ir", |_, v| v.boolean().map(|_| ())),
];

fn unstable(_: &mut Config, value: &Value) -> Result<(), String> {
    value.one_of(&[
        ("error", ()),
        ("warn", ()),
        ("enable", ()),
        ("1", ()),
        ("0", ()),
        ("true", ()),
        ("false", ()),
    ])
}

/// Stack formats by name.
pub const STACK_MODES: &[(&str, StackMode)] = &[
    ("bpftrace", StackMode::Bpftrace),
    ("perf", StackMode::Perf),
    ("raw", StackMode::Raw),
    ("build_id", StackMode::BuildId),
];

/// The name as the table has it: `BPFTRACE_MAX_STRLEN`, `MAX_STRLEN` and `max_strlen` are one.
pub fn canonical_name(name: &str) -> String {
    let name = name.to_ascii_lowercase();
    name.strip_prefix("bpftrace_").unwrap_or(&name).to_string()
}

impl Config {
    /// Sets a variable by any of its spellings. `None`: there is no such variable.
    pub fn set(&mut self, name: &str, value: &Value) -> Option<Result<(), String>> {
        let name = canonical_name(name);
        let (_, set) = VARIABLES.iter().find(|(have, _)| *have == name)?;
        Some(set(self, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_variable_sets_it() {
        for name in ["BPFTRACE_MAX_STRLEN", "MAX_STRLEN", "max_strlen"] {
            let mut config = Config::default();
            assert_eq!(config.set(name, &Value::Number(200)), Some(Ok(())));
            assert_eq!(config.max_strlen, 200);
        }
    }

    #[test]
    fn a_wrong_value_says_what_is_right() {
        let mut config = Config::default();
        let wrong = config.set("stack_mode", &Value::Text("perl".into())).unwrap().unwrap_err();
        assert_eq!(wrong, "has to be one of bpftrace, perf, raw, build_id, not 'perl'");
        assert!(config.set("max_strlen", &Value::Number(1 << 40)).unwrap().is_err());
        assert_eq!(config.set("nothing", &Value::Number(1)), None);
    }
}
