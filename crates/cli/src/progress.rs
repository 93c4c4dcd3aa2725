//! How far a recording is, on stderr: one line drawn over on a terminal, a line now and then
//! elsewhere, nothing when quiet.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use report::number;
use run::record::{Phase, Progress};

use crate::console::{Console, Talk};

/// Draws progress.
pub struct ProgressLine {
    redraw: bool,
    silent: bool,
    drawn: bool,
    next: Instant,
    pause: Duration,
    limit: Option<Duration>,
    last: Option<Progress>,
}

impl ProgressLine {
    /// `limit` is how long the recording takes at most.
    pub fn new(console: &Console, limit: Option<Duration>) -> ProgressLine {
        ProgressLine {
            redraw: console.can_redraw(),
            silent: console.talk() == Talk::Quiet,
            drawn: false,
            next: Instant::now() + Duration::from_secs(10),
            pause: Duration::from_secs(10),
            limit,
            last: None,
        }
    }

    /// Takes the next state.
    pub fn show(&mut self, progress: Progress) {
        let rate = self.rate(&progress);
        self.last = Some(progress);
        if self.silent || progress.phase < Phase::Recording || progress.phase == Phase::Ending {
            return;
        }
        let text = self.text(&progress, rate);
        if self.redraw {
            self.draw(&text);
        } else if progress.phase == Phase::Recording && Instant::now() >= self.next {
            // Every 10 s, then every 20, 40, … so that a log of a night stays short.
            self.pause = (self.pause * 2).min(Duration::from_secs(600));
            self.next = Instant::now() + self.pause;
            let _ = writeln!(io::stderr(), "lotse: {text}");
        }
    }

    /// Takes the line off the terminal.
    pub fn end(&mut self) {
        if std::mem::take(&mut self.drawn) {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }

    fn rate(&self, progress: &Progress) -> Option<f64> {
        let last = self.last?;
        let seconds = progress.elapsed.checked_sub(last.elapsed)?.as_secs_f64();
        (seconds > 0.01).then(|| progress.events.saturating_sub(last.events) as f64 / seconds)
    }

    fn text(&self, progress: &Progress, rate: Option<f64>) -> String {
        if progress.phase == Phase::Writing {
            return format!("writing the trace of {} events", number::count(progress.events));
        }
        let of =
            self.limit.map_or(String::new(), |limit| format!(" of {}", run::recipe::format_duration(limit)));
        let rate = rate.map_or(String::new(), |rate| format!(", {}", number::rate(rate)));
        let lost = match progress.lost {
            0 => "none lost".to_owned(),
            lost => format!("{} LOST", number::count(lost)),
        };
        format!(
            "recording {:.0} s{of}: {} events{rate}, {lost} (Ctrl-C ends it and reports)",
            progress.elapsed.as_secs_f64(),
            number::count(progress.events)
        )
    }

    fn draw(&mut self, text: &str) {
        let columns = kernel::terminal::columns().unwrap_or(80);
        let text = report::terminal_text::shorten(text, columns.saturating_sub(1));
        let mut stderr = io::stderr().lock();
        let _ = write!(stderr, "\r\x1b[K{text}");
        let _ = stderr.flush();
        self.drawn = true;
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.end();
    }
}
