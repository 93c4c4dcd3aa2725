//! Stacks merged into a flame graph: who called whom, and how much each accounts for.

use crate::table::{Text, Unit};

/// Weighted stacks.
#[derive(Clone, Debug)]
pub struct Flame {
    /// Its name in JSON and its anchor in HTML.
    pub id: Text,
    /// Its title.
    pub title: Text,
    /// What the widths stand for, in a sentence.
    pub about: Option<Text>,
    /// What the weights are.
    pub unit: Unit,
    /// What is counted where the unit is [`Unit::Count`], in the plural: `samples`.
    pub counted: Text,
    /// The stacks in any order; equal ones are added up.
    pub stacks: Vec<Stack>,
    /// The stacks of an earlier run. Boxes are then coloured by how their share of the whole changed; widths
    /// stay those of `stacks`.
    pub before: Option<Vec<Stack>>,
}

/// One stack and its weight.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stack {
    /// Frames from the root to the leaf. A kernel function ends with `_[k]`, as folded stacks
    /// have it.
    pub frames: Vec<String>,
    /// How much it accounts for, in the graph's unit.
    pub weight: u64,
}

/// Ends the names of kernel functions in folded stacks.
pub const KERNEL_MARK: &str = "_[k]";

/// One box of the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The function's name, without the mark of kernel functions.
    pub name: &'a str,
    /// Whether it is a kernel function.
    pub is_kernel: bool,
    /// 0 for a root.
    pub depth: usize,
    /// Weight of everything to its left.
    pub start: u64,
    /// Its own weight and that of all it called.
    pub weight: u64,
    /// Its own weight alone.
    pub own: u64,
    /// Its weight in the earlier run, in that run's units.
    pub before: u64,
}

/// The boxes worth drawing.
#[derive(Clone, Debug, Default)]
pub struct Drawn<'a> {
    /// Each before those it called, unless there are very many: then the widest first.
    pub boxes: Vec<Frame<'a>>,
    /// Rows that they take.
    pub depth: usize,
    /// Boxes that are too narrow, too deep or too many.
    pub left_out: usize,
}

/// Boxes narrower than this part of the whole are not drawn.
const NARROWEST: f64 = 0.0008;
/// Boxes drawn at most, the widest; more make a page slow.
const MOST: usize = 4_000;
/// Deeper than this is cut, and said.
const DEEPEST: usize = 200;

impl Flame {
    /// The weight of all stacks.
    pub fn total(&self) -> u64 {
        total(&self.stacks)
    }

    /// The weight of all stacks of the earlier run; 0 without one.
    pub fn total_before(&self) -> u64 {
        total(self.before.as_deref().unwrap_or(&[]))
    }

    /// A weight with its unit: `1,234 samples`, `1.20 s`.
    pub fn print(&self, weight: u64) -> String {
        let text = self.unit.print(weight);
        match self.unit {
            Unit::Count if weight == 1 => format!("{text} {}", self.counted.trim_end_matches('s')),
            Unit::Count => format!("{text} {}", self.counted),
            _ => text,
        }
    }

    /// How much larger a box's share of the whole is than it was in the earlier run, -1…1.
    pub fn change(&self, frame: &Frame<'_>) -> f64 {
        let share = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
        share(frame.weight, self.total()) - share(frame.before, self.total_before())
    }

    /// The share of the earlier run in stacks that this one has not: they have no width in the picture.
    pub fn gone(&self) -> f64 {
        let now: std::collections::HashSet<&[String]> =
            self.stacks.iter().filter(|s| s.weight > 0).map(|s| s.frames.as_slice()).collect();
        let before = self.before.as_deref().unwrap_or(&[]);
        let gone = before.iter().filter(|s| !now.contains(s.frames.as_slice()));
        gone.fold(0u64, |sum, s| sum.saturating_add(s.weight)) as f64 / self.total_before().max(1) as f64
    }

    /// What a picture of limited size shows.
    pub fn drawn(&self) -> Drawn<'_> {
        let total = self.total();
        let frames = self.frames();
        let all = frames.iter().filter(|f| f.weight > 0).count();
        let wide = |f: &Frame<'_>| f.weight as f64 >= NARROWEST * total as f64 && f.weight > 0;
        let mut boxes: Vec<Frame<'_>> = frames.into_iter().filter(|f| wide(f) && f.depth < DEEPEST).collect();
        if boxes.len() > MOST {
            // A box goes only with all it called: those are never wider, and come later.
            boxes.sort_by_key(|f| (std::cmp::Reverse(f.weight), f.depth));
            boxes.truncate(MOST);
        }
        let depth = boxes.iter().map(|f| f.depth + 1).max().unwrap_or(0);
        Drawn { depth, left_out: all - boxes.len(), boxes }
    }

    /// From lines of folded stacks, `root;caller;leaf 42`. Lines that are none are counted in
    /// the second value.
    pub fn parse_folded(text: &str) -> (Vec<Stack>, usize) {
        let mut wrong = 0;
        let stacks = text.lines().filter(|line| !line.trim().is_empty()).filter_map(|line| {
            let parsed = line.trim_end().rsplit_once(' ').and_then(|(frames, weight)| {
                let frames: Vec<String> = frames.split(';').map(str::to_owned).collect();
                Some(Stack { frames, weight: weight.parse().ok()? })
            });
            wrong += usize::from(parsed.is_none());
            parsed
        });
        (stacks.collect(), wrong)
    }

    /// The boxes, each before those it called, siblings by name from left to right. Deep
    /// stacks cost no recursion. Boxes that only the earlier run has weigh nothing.
    pub fn frames(&self) -> Vec<Frame<'_>> {
        let now = self.stacks.iter().map(|s| (&s.frames, s.weight, 0));
        let before = self.before.iter().flatten().map(|s| (&s.frames, 0, s.weight));
        let mut stacks: Vec<(&Vec<String>, u64, u64)> =
            now.chain(before).filter(|(_, now, before)| now | before > 0).collect();
        stacks.sort();
        let mut frames: Vec<Frame<'_>> = Vec::new();
        // The boxes of the stack at hand, by their index in `frames`, and their full names.
        let mut open: Vec<(usize, &str)> = Vec::new();
        let mut at = 0u64;
        for (stack, weight, before) in stacks {
            let same = open.iter().zip(stack).take_while(|((_, name), frame)| name == frame).count();
            open.truncate(same);
            for (depth, full) in stack.iter().enumerate().skip(same) {
                let name = full.strip_suffix(KERNEL_MARK).unwrap_or(full);
                let is_kernel = name.len() < full.len();
                open.push((frames.len(), full));
                frames.push(Frame { name, is_kernel, depth, start: at, weight: 0, own: 0, before: 0 });
            }
            for &(index, _) in &open {
                frames[index].weight = frames[index].weight.saturating_add(weight);
                frames[index].before = frames[index].before.saturating_add(before);
            }
            if let Some(&(leaf, _)) = open.last() {
                frames[leaf].own = frames[leaf].own.saturating_add(weight);
            }
            at = at.saturating_add(weight);
        }
        frames
    }
}

fn total(stacks: &[Stack]) -> u64 {
    stacks.iter().fold(0, |sum, s| sum.saturating_add(s.weight))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flame(text: &str) -> Flame {
        of(Flame::parse_folded(text).0)
    }

    fn of(stacks: Vec<Stack>) -> Flame {
        Flame {
            id: "f".into(),
            title: "f".into(),
            about: None,
            unit: Unit::Count,
            counted: "samples".into(),
            stacks,
            before: None,
        }
    }

    #[test]
    fn common_roots_are_one_box() {
        let flame = flame("main;b;c_[k] 2\nmain;a 3\nmain;b 5\nmain;b;c_[k] 1\n");
        let boxes: Vec<_> =
            flame.frames().iter().map(|f| (f.name, f.is_kernel, f.depth, f.start, f.weight, f.own)).collect();
        assert_eq!(
            boxes,
            [
                ("main", false, 0, 0, 11, 0),
                ("a", false, 1, 0, 3, 3),
                ("b", false, 1, 3, 8, 5),
                ("c", true, 2, 8, 3, 3)
            ]
        );
        assert_eq!(flame.total(), 11);
    }

    #[test]
    fn a_frame_that_calls_itself_is_two_boxes() {
        let flame = flame("f;f;f 1\nf 1");
        assert_eq!(flame.frames().iter().map(|f| f.weight).collect::<Vec<_>>(), [2, 1, 1]);
    }

    #[test]
    fn lines_that_are_no_stacks_are_counted() {
        assert_eq!(Flame::parse_folded("a;b x\nnothing\n\na;b 1\n").1, 2);
    }

    #[test]
    fn depth_and_weight_have_no_bound() {
        let frames = vec!["f".to_owned(); 100_000];
        let stacks =
            vec![Stack { frames: frames.clone(), weight: u64::MAX }, Stack { frames, weight: u64::MAX }];
        let flame = of(stacks);
        assert_eq!(flame.frames().len(), 100_000);
        assert_eq!(flame.total(), u64::MAX);
        assert_eq!(flame.drawn().left_out, 100_000 - DEEPEST);
    }

    #[test]
    fn two_runs_are_compared_by_their_shares() {
        let mut flame = flame("main;a 30\nmain;b 10\n");
        flame.before = Some(Flame::parse_folded("main;a 1\nmain;b 2\nmain;gone 1\n").0);
        let changes: Vec<_> =
            flame.frames().iter().map(|f| (f.name, f.weight, f.before, flame.change(f))).collect();
        assert_eq!(
            changes,
            [("main", 40, 4, 0.0), ("a", 30, 1, 0.5), ("b", 10, 2, -0.25), ("gone", 0, 1, -0.25)]
        );
        assert_eq!(flame.gone(), 0.25);
        assert_eq!((flame.drawn().boxes.len(), flame.drawn().left_out), (3, 0));
    }

    #[test]
    fn weights_are_told_with_what_they_count() {
        let flame = flame("a 1");
        assert_eq!((flame.print(1), flame.print(1234)), ("1 sample".into(), "1,234 samples".into()));
    }
}
