//! Every kind of finding: its stable code, its title and what `lotse explain CODE` says.

use std::fmt;

/// A kind of finding with its explanation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeRow {
    /// The kind.
    pub code: Code,
    /// A few words.
    pub title: &'static str,
    /// Paragraphs: what it means, why it is so, what to do, with an example.
    pub explanation: &'static str,
}

macro_rules! codes {
    ($($name:ident = $number:literal, $title:literal, $explanation:literal;)*) => {
        /// A kind of finding. The numbers never change and are never used again.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
        #[repr(u16)]
        pub enum Code {
            $(#[doc = $title] $name = $number,)*
        }

        /// All kinds, in order of their codes.
        pub const CODES: &[CodeRow] =
            &[$(CodeRow { code: Code::$name, title: $title, explanation: $explanation },)*];
    };
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "L{:04}", *self as u16)
    }
}

impl Code {
    /// The row of this code.
    pub fn row(self) -> &'static CodeRow {
        CODES.iter().find(|row| row.code == self).expect("every code is made from a row")
    }

    /// The code with this text (`L0301`, `l301`, `301`).
    pub fn parse(text: &str) -> Option<Code> {
        let number: u16 = text.trim_start_matches(['L', 'l']).parse().ok()?;
        CODES.iter().map(|row| row.code).find(|code| *code as u16 == number)
    }
}

codes! {
// The text as such.
UnexpectedToken = 1, "something else was expected here",
"The text does not follow the grammar at the marked place. The message names what could have stood there.

    begin { printf(\"hi\" }
                        ~ expected ',' or ')'

A missing ';' between two statements and a missing brace are the most frequent causes; the place marked
is where reading could not go on, so look just before it too.";
BadNumber = 2, "a number that cannot be read",
"Numbers are decimal (1_000), hexadecimal (0x1f), octal (0755), with an exponent (1e6) or with a unit of
time (10ms, 2s: nanoseconds). They have at most 64 bits, and there are no fractions: BPF has no floating point.";
BadString = 3, "a string that does not end or has a bad escape",
"A string ends with '\"' on the line it began on. Escapes are \\n \\t \\r \\\\ \\\" \\a \\b \\v \\f \\e, \\xNN (hexadecimal)
and \\NNN (octal). A line break inside a string is written \\n.";
BadComment = 4, "a comment without an end",
"A comment that begins with /* has to end with */; the rest of the file was taken as the comment.";
TooDeep = 5, "nested too deeply",
"Expressions, blocks, macros and imports may be nested some hundred levels deep. Deeper nesting is nearly
always a macro that calls itself.";
BadDirective = 6, "a '#' line that cannot be used",
"Understood are #include (the kernel's types come from BTF, so its text is not needed), #define, #undef,
#if, #ifdef, #ifndef, #elif, #else, #endif, #error, #warning and #pragma. Each #if needs its #endif. Conditions are
made of integers, names, C operators, defined(NAME), and questions about the kernel: probe(\"fentry:vfs_read\"),
field(\"struct request\", \"q.disk\"), kfunc(\"bpf_strlen\").";
BadCDeclaration = 7, "a C declaration that cannot be read",
"In the preamble, struct, union, enum and typedef are read as C: members of integer, pointer, array, struct and
enum type, bit fields, anonymous members, and __attribute__((packed)). Function pointers become void pointers.
Code and expressions other than constant array lengths are not read. Types of the kernel need no declaration at
all where the kernel has BTF.";
BadImport = 8, "a file that cannot be imported",
"import \"file\" adds the macros, functions, maps and probes of another file. The path is relative to the working
directory. The message says what went wrong.";
StrayItem = 9, "this cannot stand outside a probe",
"Outside of probes there are: probes, config = { … }, let @map = …, macro, fn, import, and C declarations.
Statements have to be inside a probe's braces.";
ErrorDirective = 10, "the program says that it cannot work here",
"A `#error` line was reached: the program chose by what the kernel has (`#if probe(\"fentry:vfs_read\")`,
`field(\"struct request\", \"q.disk\")`, `kfunc(\"bpf_strlen\")`), and nothing it knows is here. The message is the
program's own; nothing else is reported then.";

// Probes.
UnknownProbeType = 101, "there is no such type of probe",
"A probe begins with its type: begin end self test bench tracepoint rawtracepoint fentry fexit kprobe kretprobe
uprobe uretprobe usdt profile interval software hardware watchpoint asyncwatchpoint iter, or the short form t rt f
fr k kr u ur U p i s h w aw it. `lotse list` shows the probes of this machine.";
BadProbe = 102, "a probe with the wrong parts",
"The parts after the type depend on it, separated by ':':

    tracepoint:CATEGORY:NAME        kprobe[:MODULE]:FUNCTION[+OFFSET]
    uprobe:FILE:FUNCTION[+OFFSET]   usdt:FILE[:PROVIDER]:NAME
    interval:UNIT:N, interval:1s    profile:hz:99
    software:EVENT[:N]              hardware:EVENT[:N]
    watchpoint:ADDRESS:LENGTH:rwx   iter:KIND[:PIN]
    rawtracepoint[:MODULE]:NAME     fentry[:MODULE]:FUNCTION";
NoSuchProbe = 103, "this kernel or file has no such probe",
"No tracepoint, function or event of that name is there. Names change between kernels: `lotse list 'PATTERN'`
shows what is there now. With config = { missing_probes = \"warn\" } the others are attached all the same.";
ProbeUnsupported = 104, "this kernel cannot attach that type of probe",
"The kernel lacks what this type of probe needs (kprobes, function trampolines, hardware counters …); `lotse doctor`
says what works here. Often another probe sees the same: a tracepoint or rawtracepoint in place of a kprobe.";
TooManyProbes = 105, "more probes than allowed",
"The wildcard matches more probes than max_probes allows. Narrow it, or raise the limit:

    config = { max_probes = 5000 }";
NoProbes = 106, "nothing to trace",
"The program has no probe. A program is a list of probes, each with what to do when it fires:

    tracepoint:syscalls:sys_enter_openat { printf(\"%s %s\\n\", comm, str(args.filename)); }";
CannotAsk = 107, "the compiler could not find something out",
"A question about files or the kernel could not be answered; the message says which and why.";
IteratorAlone = 108, "an iterator cannot be mixed with other probes",
"iter: probes walk over kernel objects once and print; they run for themselves.";

// Names.
UnknownVariable = 201, "a variable without a value",
"A scratch variable ($x) belongs to the block it is first assigned in and the blocks inside it. Here no
assignment or let is in reach. Declare it further out:

    let $x;
    if (cond) { $x = 1; }
    print($x);

To carry a value from one probe to another use a map: @x[tid] = … ";
UnknownIdentifier = 202, "an unknown name",
"A bare word is a builtin (pid, comm, nsecs …), a macro, a constant of the C preamble, or an enumerator of the
kernel's types. This one is none of them.";
Shadowed = 203, "a variable that is already there",
"let declares a new variable, and a variable may not hide another of the same name in an enclosing block. Leave out
the let to assign to it, or take another name.";
UnknownMap = 204, "a map that is never assigned",
"The map is read but nothing in the program writes it, so its type is not known. Is the name spelt as where it is
assigned?";
UnknownField = 205, "a struct without such a field",
"The type named in the message has no field of that name on this kernel. Fields move and are renamed between
kernels; the nearest names are shown. Fields of anonymous structs and unions are used as if they were the outer
struct's own.";
UnknownType = 206, "an unknown type",
"Types are bool, int8 … uint64, string, buffer, inet, C's own (unsigned long …), typedefs, and struct, union or
enum NAME from the preamble or the kernel's BTF. Module types are found once a probe names the module.";
UnknownConfig = 207, "an unknown setting",
"The config block has settings such as max_strlen, max_map_keys, stack_mode, missing_probes. The list is in
docs/language.md; names of environment variables (BPFTRACE_MAX_STRLEN) work too.";
BadConfig = 208, "a setting with a wrong value",
"The message says what the setting accepts.";
BadMapDeclaration = 209, "a map declaration that cannot be used",
"A map is declared outside of probes, once, with its kind and greatest number of entries:

    let @m = lruhash(1000);

Kinds are hash, lruhash, percpuhash, percpulruhash.";
UnusedDeclaration = 210, "a declared map that is not used",
"The program declares this map and never uses it; it is not created.";
Duplicate = 211, "defined twice",
"There is another definition of the same name; names of macros, functions, options and types are given once.";
BadMacro = 212, "a macro used wrongly",
"A macro's parameters say what may be given: $x a variable, @x a map, x any expression. Its body sees only its
parameters and its own variables; maps have to be handed in.";
Unreachable = 213, "never reached",
"The code after return, break, continue or exit() in the same block is not run.";

// Functions.
UnknownFunction = 301, "there is no such function",
"Neither a builtin function, a macro, nor a fn of the program has this name. docs/language.md lists the builtins.";
BadArguments = 302, "a function with the wrong arguments",
"The message shows how the function is called.";
NotInThisProbe = 303, "not available in this type of probe",
"Some values exist only in some probes: args and argN where arguments are known, retval in return probes, ustack
where user code was interrupted, and so on.";
NeedsUnsafe = 304, "this needs --unsafe",
"system, signal, override and the like change what they observe. They are allowed with --unsafe.";
BadFormat = 305, "a format that does not fit its arguments",
"Each conversion in a format takes one argument of a fitting type: %d %u %x for integers, %s for strings, symbols,
stacks and enums, %c for a character, %p for addresses, %r for buffers. %% is a percent sign.";
NeedsLiteral = 306, "this has to be known at compile time",
"Formats, sizes of histograms, modes and names of registers are part of the program, not values at run time.";
AggregateMisplaced = 307, "count(), hist() and the like are assigned to maps",
"Aggregates live in maps:

    @n = count();    @bytes[comm] = sum(args.ret);

They have no value of their own elsewhere; (int64)@n reads one.";
MissingFeature = 308, "this kernel lacks what the function needs",
"The message names the helper or feature. `lotse doctor` lists what this kernel offers.";
Deprecated = 309, "an old spelling",
"It still works; the new one is in the message.";
StaticAssert = 310, "an assertion of the program failed at compile time",
"static_assert or fail in the program stopped the compilation with the message shown.";

// Types.
TypeMismatch = 401, "types that do not go together",
"A variable or map has one type in the whole program: that of its first assignment, widened as needed among
integers of the same sign and strings. The message names both types and where the first comes from.";
NotAnInteger = 402, "an integer was expected",
"Arithmetic works on integers (and + and - on pointers). Strings are compared, not added; aggregates are read with
a cast: (int64)@n.";
NotAPointer = 403, "a pointer was expected",
"Only pointers can be followed with * or ->. Cast an integer to the type it points to first:

    $task = (struct task_struct *)arg0;";
NotAStruct = 404, "a struct was expected",
"Fields belong to structs, pointers to structs, tuples and records. argN are integers: cast them first,
((struct file *)arg0)->f_flags.";
BadCast = 405, "a cast that makes no sense",
"Casts are between integers, pointers, arrays of integers with as many bytes as the integer, aggregates to integers, and
to structs from pointers by following them: *(struct x *)p.";
BadIndex = 406, "an index that does not fit",
"Arrays, pointers, strings and tuples have elements; the index is an integer, and for tuples a constant.";
BadCondition = 407, "a condition was expected",
"Conditions are booleans, integers, pointers or strings (true when not zero, not null, not empty).";
BadOperands = 408, "an operator with types it does not work on",
"The message names the types. Strings compare with == and != only.";
BadAssignment = 409, "this cannot be assigned",
"Assignments go to $variables and @maps. Fields of structs and args cannot be changed.";
BadKey = 410, "a key of the wrong type",
"A map has one type of key in the whole program; a map with several keys needs all of them, in order. A map
that is assigned without a key has none.";
ValueExpected = 411, "a value was expected",
"The expression has no value: a function that only does something, or a block without a last expression.";
NotIterable = 412, "this cannot be looped over",
"for goes over a map with keys, for ($kv : @m), or a range, for ($i : 0..10).";
DivisionByZero = 413, "a division by zero",
"A constant divisor is zero. At run time BPF gives 0 for a division by zero and the dividend for a remainder.";
SignMix = 414, "signed and unsigned compared or mixed",
"One side can be negative, the other is unsigned: a negative value would count as a very large one. Cast one side to
make it clear: (int64)x.";
UnusedValue = 415, "a value that is not used",
"The statement computes a value and drops it. Assign it, or write _ = … to say that this is meant.";
TooLarge = 416, "too large",
"The message says which limit: strings up to 32 KiB, keys up to 512 bytes beyond strings, histograms up to 1000
buckets and so on.";
OutsideLoop = 417, "break and continue belong in loops",
"They end or go on with the innermost for or while.";
BadReturn = 418, "a return that does not fit",
"A fn returns a value of its result type; probes return nothing (or an integer).";
BadAddress = 419, "no address can be taken of this",
"& takes the address of a $variable, a @map's value, or a field behind a pointer.";
ConstantOverflow = 420, "a constant that does not fit",
"The constant has more bits than the type it is assigned or cast to.";
AlwaysTheSame = 421, "a comparison that always has the same result",
"The constant lies outside of what the other side's type can hold.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_ascend_and_are_found_by_any_spelling() {
        assert!(CODES.windows(2).all(|pair| pair[0].code < pair[1].code));
        assert_eq!(Code::parse("L0301"), Some(Code::UnknownFunction));
        assert_eq!(Code::parse("301"), Some(Code::UnknownFunction));
        assert_eq!(Code::parse("L9999"), None);
        assert_eq!(Code::UnknownFunction.to_string(), "L0301");
    }

    #[test]
    fn every_code_is_explained() {
        for row in CODES {
            assert!(row.explanation.len() > 40, "{}", row.code);
            assert_eq!(row.code.row(), row);
        }
    }
}
