//! Random programs that are well typed by construction, from a seed: what the checker accepts
//! has to compile, and what compiles has to load.

use std::fmt::Write;

/// What a program may be made of.
#[derive(Clone, Debug)]
pub struct Shape {
    /// The probe all of it is in (`begin`, `rawtracepoint:sys_enter`).
    pub probe: String,
    /// Statements in the outermost block, at most.
    pub statements: u32,
    /// Depth of blocks and of expressions, at most.
    pub depth: u32,
    /// Whether the program ends itself.
    pub exit: bool,
}

impl Default for Shape {
    fn default() -> Shape {
        Shape { probe: "begin".into(), statements: 12, depth: 3, exit: true }
    }
}

/// A small generator of numbers, the same on every machine.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Begins at a seed.
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.number() % bound.max(1)
    }

    /// One of several.
    pub fn pick<'t, T>(&mut self, choices: &'t [T]) -> &'t T {
        let index = self.below(choices.len() as u64) as usize;
        &choices[index]
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Int,
    Text,
    Truth,
    Pair,
}

const KINDS: &[Kind] = &[Kind::Int, Kind::Int, Kind::Int, Kind::Text, Kind::Truth, Kind::Pair];

/// Maps with the type of key and value that all uses agree on.
const PLAIN_MAPS: &[(&str, Option<Kind>, Kind)] = &[
    ("@i", None, Kind::Int),
    ("@s", None, Kind::Text),
    ("@ii", Some(Kind::Int), Kind::Int),
    ("@is", Some(Kind::Int), Kind::Text),
    ("@si", Some(Kind::Text), Kind::Int),
    ("@pi", Some(Kind::Pair), Kind::Int),
    ("@ip", Some(Kind::Int), Kind::Pair),
];

/// Aggregates: map, key, the call with its argument left out.
const AGGREGATES: &[(&str, Option<Kind>, &str)] = &[
    ("@c", None, "count()"),
    ("@ci", Some(Kind::Int), "count()"),
    ("@sum", Some(Kind::Text), "sum(_)"),
    ("@min", None, "min(_)"),
    ("@max", Some(Kind::Int), "max(_)"),
    ("@avg", None, "avg(_)"),
    ("@st", Some(Kind::Pair), "stats(_)"),
    ("@h", None, "hist(_)"),
    ("@hi", Some(Kind::Int), "hist(_)"),
    ("@h2", None, "hist(_, 2)"),
    ("@l", Some(Kind::Int), "lhist(_, 0, 100, 10)"),
    ("@ll", None, "llhist(_)"),
];

/// A program. The same seed and shape give the same text.
pub fn program(seed: u64, shape: &Shape) -> String {
    let mut generator = Generator {
        random: Random::new(seed),
        out: String::new(),
        indent: 1,
        scopes: vec![Vec::new()],
        next: 0,
        loops: 0,
        assigned: Vec::new(),
    };
    // Every map that may be read is assigned in the same program.
    for (name, key, kind) in PLAIN_MAPS {
        if generator.random.below(2) == 0 {
            let target = generator.target(name, *key, 0);
            let value = generator.value(*kind, 0);
            generator.line(&format!("{target} = {value};"));
            generator.assigned.push(name);
        }
    }
    let count = 1 + generator.random.below(u64::from(shape.statements));
    for _ in 0..count {
        generator.statement(shape.depth);
    }
    if shape.exit {
        generator.line("exit();");
    }
    format!("{} {{\n{}}}\n", shape.probe, generator.out)
}

struct Generator {
    random: Random,
    out: String,
    indent: usize,
    scopes: Vec<Vec<(String, Kind)>>,
    next: u32,
    loops: u32,
    assigned: Vec<&'static str>,
}

impl Generator {
    fn line(&mut self, text: &str) {
        let _ = writeln!(self.out, "{}{text}", "  ".repeat(self.indent));
    }

    fn fresh(&mut self) -> String {
        self.next += 1;
        format!("$v{}", self.next)
    }

    fn variables(&self, kind: Kind) -> Vec<String> {
        let all = self.scopes.iter().flatten();
        all.filter(|(_, have)| *have == kind).map(|(name, _)| name.clone()).collect()
    }

    fn block(&mut self, depth: u32) {
        self.indent += 1;
        self.scopes.push(Vec::new());
        for _ in 0..=self.random.below(3) {
            self.statement(depth);
        }
        self.scopes.pop();
        self.indent -= 1;
        self.line("}");
    }

    fn target(&mut self, name: &str, key: Option<Kind>, depth: u32) -> String {
        match key {
            None => name.to_string(),
            Some(kind) => format!("{name}[{}]", self.value(kind, depth)),
        }
    }

    fn statement(&mut self, depth: u32) {
        let nested = depth > 0;
        match self.random.below(14) {
            0..=2 => {
                let kind = *self.random.pick(KINDS);
                let value = self.value(kind, depth);
                let name = self.fresh();
                self.line(&format!("let {name} = {value};"));
                if let Some(scope) = self.scopes.last_mut() {
                    scope.push((name, kind));
                }
            }
            3 => {
                let names = self.variables(Kind::Int);
                if let Some(name) = names.get(self.random.below(names.len() as u64) as usize) {
                    let op = *self.random.pick(&["=", "+=", "-=", "*=", "^=", "|=", "&="]);
                    let value = self.value(Kind::Int, depth);
                    self.line(&format!("{name} {op} {value};"));
                }
            }
            4 => {
                let (name, key, kind) = *self.random.pick(PLAIN_MAPS);
                let target = self.target(name, key, depth);
                let value = self.value(kind, depth);
                self.line(&format!("{target} = {value};"));
            }
            5 => {
                let (name, key, _) = PLAIN_MAPS[if self.random.below(2) == 0 { 0 } else { 2 }];
                let target = self.target(name, key, depth);
                let op = *self.random.pick(&["++", "--"]);
                self.line(&format!("{target}{op};"));
            }
            6 | 7 => {
                let (name, key, call) = *self.random.pick(AGGREGATES);
                let target = self.target(name, key, depth);
                let value = self.value(Kind::Int, depth);
                self.line(&format!("{target} = {};", call.replace('_', &value)));
            }
            8 if nested => {
                let condition = self.value(Kind::Truth, depth - 1);
                self.line(&format!("if ({condition}) {{"));
                self.block(depth - 1);
                if self.random.below(2) == 0 {
                    self.line("else {");
                    self.block(depth - 1);
                }
            }
            9 if nested && self.loops < 2 => {
                let name = self.fresh();
                let end = 1 + self.random.below(4);
                self.line(&format!("for ({name} : 0..{end}) {{"));
                self.loops += 1;
                self.scopes.push(vec![(name, Kind::Int)]);
                self.block(depth - 1);
                self.scopes.pop();
                self.loops -= 1;
            }
            10 if nested && self.loops < 2 => {
                let name = self.fresh();
                self.line(&format!("let {name} = 0;"));
                let end = 1 + self.random.below(4);
                self.line(&format!("while ({name} < {end}) {{"));
                self.loops += 1;
                self.indent += 1;
                self.line(&format!("{name}++;"));
                self.indent -= 1;
                self.block(depth - 1);
                self.loops -= 1;
            }
            11 if nested && self.loops < 1 && !self.assigned.is_empty() => {
                let keyed: Vec<&'static str> =
                    self.assigned.iter().copied().filter(|name| name.len() == 3).collect();
                if let Some(map) = keyed.get(self.random.below(keyed.len() as u64) as usize) {
                    let name = self.fresh();
                    self.line(&format!("for ({name} : {map}) {{"));
                    self.indent += 1;
                    self.line(&format!("print({name}.{});", self.random.clone().below(2)));
                    self.indent -= 1;
                    self.line("}");
                }
            }
            12 => {
                let (a, b) = (self.value(Kind::Int, depth), self.value(Kind::Text, depth));
                let format = *self.random.pick(&["%d %s\\n", "%5lld|%-10s|\\n", "%x %s\\n"]);
                self.line(&format!("printf(\"{format}\", {a}, {b});"));
            }
            _ => {
                let kind = *self.random.pick(KINDS);
                let value = self.value(kind, depth);
                self.line(&format!("print(({value}));"));
            }
        }
    }

    fn value(&mut self, kind: Kind, depth: u32) -> String {
        let names = self.variables(kind);
        if !names.is_empty() && self.random.below(3) == 0 {
            return self.random.pick(&names).clone();
        }
        match kind {
            Kind::Int => self.int(depth),
            Kind::Text => self.text(depth),
            Kind::Truth => self.truth(depth),
            Kind::Pair => {
                let (a, b) =
                    (self.value(Kind::Int, depth.saturating_sub(1)), self.text(depth.saturating_sub(1)));
                format!("((int64)({a}), {b})")
            }
        }
    }

    /// An `int64`, whatever its parts are: maps agree on one sign.
    fn int(&mut self, depth: u32) -> String {
        if depth == 0 {
            return match self.random.below(6) {
                0 => "(int64)pid".into(),
                1 => "(int64)cpu".into(),
                2 => "(int64)nsecs".into(),
                3 => format!("{}", self.random.below(1000)),
                4 => format!("-{}", self.random.below(100)),
                _ => format!("{}", 1u64 << self.random.below(40)),
            };
        }
        let next = depth - 1;
        match self.random.below(10) {
            0..=2 => {
                let op = *self.random.pick(&["+", "-", "*", "&", "|", "^"]);
                // Constants that grow beyond 64 bits are an error; what is known only at run time wraps.
                let known = if op == "*" { " ^ (int64)cpu" } else { "" };
                format!("(({}{known}) {op} {})", self.int(next), self.int(next))
            }
            3 => {
                let op = *self.random.pick(&["/", "%"]);
                format!("({} {op} {})", self.int(next), 1 + self.random.below(50))
            }
            4 => {
                let op = *self.random.pick(&["<<", ">>"]);
                format!("(({} ^ (int64)cpu) {op} {})", self.int(next), self.random.below(20))
            }
            5 => format!("(int64)({})", self.truth(next)),
            6 => {
                let ty = *self.random.pick(&["uint8", "int8", "uint16", "int16", "uint32", "int32"]);
                format!("(int64)({ty})({})", self.int(next))
            }
            7 => format!("({} ? {} : {})", self.truth(next), self.int(next), self.int(next)),
            8 if self.assigned.contains(&"@ii") => format!("@ii[{}]", self.int(next)),
            _ => format!("(int64)strlen({})", self.text(next)),
        }
    }

    fn text(&mut self, depth: u32) -> String {
        match self.random.below(4) {
            0 => "comm".into(),
            1 if depth > 0 => {
                let (condition, other) = (self.truth(depth - 1), self.text(depth - 1));
                format!("({condition} ? comm : {other})")
            }
            _ => format!("\"{}\"", &"abcdefghijklm"[..self.random.below(14) as usize]),
        }
    }

    fn truth(&mut self, depth: u32) -> String {
        if depth == 0 {
            return (*self.random.pick(&["true", "false", "pid > 1"])).into();
        }
        let next = depth - 1;
        match self.random.below(6) {
            0 => format!("!({})", self.truth(next)),
            1 => format!("({} && {})", self.truth(next), self.truth(next)),
            2 => format!("({} || {})", self.truth(next), self.truth(next)),
            3 => {
                let op = *self.random.pick(&["==", "!="]);
                format!("({} {op} {})", self.text(next), self.text(next))
            }
            4 if self.assigned.contains(&"@ii") => format!("has_key(@ii, {})", self.int(next)),
            _ => {
                let op = *self.random.pick(&["<", "<=", ">", ">=", "==", "!="]);
                format!("({} {op} {})", self.int(next), self.int(next))
            }
        }
    }
}
