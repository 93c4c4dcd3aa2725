//! "Did you mean": the names nearest to a misspelt one.

/// Up to `limit` candidates that are near enough to be meant, the nearest first. Near is an edit distance
/// (with transpositions) of at most a third of the length, or a shared part of at least four letters.
pub fn nearest<'a>(
    wanted: &str,
    candidates: impl IntoIterator<Item = &'a str>,
    limit: usize,
) -> Vec<&'a str> {
    let lower = wanted.to_lowercase();
    let bound = (wanted.len() / 3).clamp(1, 4);
    let mut scored: Vec<(usize, &'a str)> = candidates
        .into_iter()
        .filter(|candidate| *candidate != wanted && !candidate.is_empty())
        .filter_map(|candidate| {
            let other = candidate.to_lowercase();
            if let Some(distance) = distance(lower.as_bytes(), other.as_bytes(), bound) {
                return Some((distance * 2, candidate));
            }
            let contained =
                lower.len() >= 4 && (other.contains(&lower) || (other.len() >= 4 && lower.contains(&other)));
            contained.then(|| (bound * 2 + 1 + other.len().abs_diff(lower.len()), candidate))
        })
        .collect();
    scored.sort();
    scored.dedup();
    scored.into_iter().take(limit).map(|(_, name)| name).collect()
}

/// Optimal string alignment distance, if at most `bound`.
fn distance(a: &[u8], b: &[u8], bound: usize) -> Option<usize> {
    if a.len().abs_diff(b.len()) > bound {
        return None;
    }
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let cost = usize::from(a[i - 1] != b[j - 1]);
            row[j] = (last[j] + 1).min(row[j - 1] + 1).min(last[j - 1] + cost);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        if row.iter().all(|cell| *cell > bound) {
            return None;
        }
        before = std::mem::replace(&mut last, row);
    }
    last.last().copied().filter(|found| *found <= bound)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_of_the_finger_are_found() {
        let fields = ["pid", "tgid", "prio", "comm", "start_time", "start_boottime"];
        assert_eq!(nearest("pdi", fields, 3), ["pid"]);
        assert_eq!(nearest("star_time", fields, 3), ["start_time"]);
        assert_eq!(nearest("boottime", fields, 3), ["start_boottime"]);
        assert!(nearest("zzzz", fields, 3).is_empty());
    }
}
