//! Checks programs against this kernel and prints the stage asked for:
//! `check [ast|hir|none] FILE…`, `check hir -e TEXT`.

use lang::options::Options;
use run::program::live_environment::LiveEnvironment;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let stage = arguments.next().unwrap_or_default();
    let facts = kernel::facts::LiveFacts::new();
    let environment = LiveEnvironment::new(None);
    let options = Options { environment: &environment, unsafe_allowed: true, ..Options::default() };
    let mut failed = 0;
    while let Some(argument) = arguments.next() {
        let text = if argument == "-e" {
            arguments.next().unwrap_or_default()
        } else {
            std::fs::read_to_string(&argument).unwrap_or_default()
        };
        let start = std::time::Instant::now();
        let front = lang::front::front(&text, &options, &facts);
        let time = start.elapsed();
        let words = match (stage.as_str(), front.hir.is_some()) {
            ("ast", _) => front.ast_text(),
            ("hir", _) => front.hir_text(),
            _ => String::new(),
        };
        let report = front.report();
        failed += usize::from(front.hir.is_none());
        let mark = if front.hir.is_some() { "ok" } else { "ERROR" };
        let out = format!("{argument}: {mark} {time:?}\n{words}{report}");
        std::io::Write::write_all(&mut std::io::stdout(), out.as_bytes()).ok();
    }
    std::process::exit(i32::from(failed > 0));
}
