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
    /// The stacks in any order; equal ones are added up.
    pub stacks: Vec<Stack>,
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
}

impl Flame {
    /// The weight of all stacks.
    pub fn total(&self) -> u64 {
        self.stacks.iter().fold(0, |sum, s| sum.saturating_add(s.weight))
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
    /// stacks cost no recursion.
    pub fn frames(&self) -> Vec<Frame<'_>> {
        let mut stacks: Vec<&Stack> = self.stacks.iter().filter(|s| s.weight > 0).collect();
        stacks.sort();
        let mut frames: Vec<Frame<'_>> = Vec::new();
        // The boxes of the stack at hand, by their index in `frames`, and their full names.
        let mut open: Vec<(usize, &str)> = Vec::new();
        let mut at = 0u64;
        for stack in stacks {
            let same = open.iter().zip(&stack.frames).take_while(|((_, name), frame)| name == frame).count();
            open.truncate(same);
            for (depth, full) in stack.frames.iter().enumerate().skip(same) {
                let name = full.strip_suffix("_[k]").unwrap_or(full);
                let is_kernel = name.len() < full.len();
                open.push((frames.len(), full));
                frames.push(Frame { name, is_kernel, depth, start: at, weight: 0, own: 0 });
            }
            for &(index, _) in &open {
                frames[index].weight = frames[index].weight.saturating_add(stack.weight);
            }
            if let Some(&(leaf, _)) = open.last() {
                frames[leaf].own = frames[leaf].own.saturating_add(stack.weight);
            }
            at = at.saturating_add(stack.weight);
        }
        frames
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flame(text: &str) -> Flame {
        let (stacks, _) = Flame::parse_folded(text);
        Flame { id: "f".into(), title: "f".into(), about: None, unit: Unit::Count, stacks }
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
        let flame = Flame { id: "f".into(), title: "f".into(), about: None, unit: Unit::Count, stacks };
        assert_eq!(flame.frames().len(), 100_000);
        assert_eq!(flame.total(), u64::MAX);
    }
}
