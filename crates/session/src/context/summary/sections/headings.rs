//! Finding the headings of a template in a text, and escaping lines that only look like one.
//!
//! A heading counts once, and only in the template's order. If several lines could be the heading, the sequence of headings with the
//! greatest total similarity wins; of equal ones, the first. So a heading inside a quoted README or message does not open its section
//! again. Lines in a closed code fence, in a block quote or in a list are never headings.

/// Similarity of a line to a heading of the template. One exact heading must outweigh any number of less similar ones before it.
const EXACT: u64 = 1_000;
const OTHER_LEVEL: u64 = 40;
const BOLD: u64 = 10;
const PLAIN: u64 = 1;

/// Returns the lines that are headings, each with the index of its heading. Both are ascending.
pub(super) fn places(headings: &[String], lines: &[&str], is_default: bool) -> Vec<(usize, usize)> {
    let titles: Vec<String> = headings.iter().map(|heading| title(heading)).collect();
    let open = fences(lines).0;
    let text = || lines.iter().enumerate().filter(|(number, _)| !open[*number]);
    let mut found: Vec<(usize, usize, u64)> = text()
        .filter_map(|(number, line)| Some((number, line, weight(line)?)))
        .flat_map(|(number, line, weight)| {
            let name = title(line);
            let hits = (0..headings.len()).filter(|index| titles[*index] == name).collect::<Vec<_>>();
            hits.into_iter().map(move |index| {
                let exact = line.trim_end() == headings[index];
                (number, index, if exact { EXACT } else { weight })
            })
        })
        .collect();
    if found.is_empty() {
        // Fallback if no line has the marks of a heading: lines that consist only of a title.
        let plain = text().flat_map(|(number, line)| {
            let name = line.trim_end().trim_end_matches(':').to_lowercase();
            let hits = (0..headings.len()).filter(|index| titles[*index] == name).collect::<Vec<_>>();
            hits.into_iter().map(move |index| (number, index, PLAIN))
        });
        found = plain.collect();
    }
    let best = best_chain(&found, headings.len());
    if is_default && best.len() < 3 {
        let marked: Vec<(usize, usize)> =
            text().map(|(number, line)| (number, level(line))).filter(|(_, level)| *level > 0).collect();
        // The model translated the headings: if their number and levels are the template's, they are taken in order.
        if marked.iter().map(|(_, level)| *level).eq(headings.iter().map(|heading| level(heading))) {
            return marked.iter().enumerate().map(|(index, (number, _))| (*number, index)).collect();
        }
    }
    best
}

/// Returns the ascending sequence of lines and headings with the greatest weight; of equal ones, the
/// earliest.
fn best_chain(found: &[(usize, usize, u64)], headings: usize) -> Vec<(usize, usize)> {
    // For each heading, the heaviest sequence that ends with it: its weight, and the index in `links` of its last element.
    let mut ends: Vec<Option<(u64, usize)>> = vec![None; headings];
    let mut links: Vec<((usize, usize), Option<usize>)> = Vec::new();
    for (number, index, weight) in found {
        let before = ends[..*index].iter().flatten().filter(|(_, link)| links[*link].0.0 < *number);
        let before = before.fold(None, |best: Option<(u64, usize)>, end| match best {
            Some(best) if best.0 >= end.0 => Some(best),
            _ => Some(*end),
        });
        let sum = before.map_or(0, |(sum, _)| sum) + weight;
        if ends[*index].is_none_or(|(best, _)| sum > best) {
            ends[*index] = Some((sum, links.len()));
            links.push(((*number, *index), before.map(|(_, link)| link)));
        }
    }
    let heaviest = ends.iter().flatten().fold(None, |best: Option<&(u64, usize)>, end| match best {
        Some(best) if best.0 >= end.0 => Some(best),
        _ => Some(end),
    });
    let mut chain = Vec::new();
    let mut link = heaviest.map(|(_, link)| *link);
    while let Some(at) = link {
        chain.push(links[at].0);
        link = links[at].1;
    }
    chain.reverse();
    chain
}

/// Returns `body` with a backslash before each line that could be taken for a heading. Closes an open code
/// fence, which would otherwise reach into the next section. Idempotent.
pub(super) fn escape(headings: &[String], body: &str) -> String {
    let titles: Vec<String> = headings.iter().map(|heading| title(heading)).collect();
    let lines = body.split('\n').map(|line| {
        let is_heading = weight(line).is_some() && titles.contains(&title(line));
        if is_heading { format!("\\{line}") } else { line.to_owned() }
    });
    let mut text = lines.collect::<Vec<_>>().join("\n");
    let lines: Vec<&str> = body.lines().collect();
    if let Some(fence) = fences(&lines).1 {
        text.push('\n');
        text.push_str(fence);
    }
    text
}

/// Returns how similar a line with the marks of a heading is to one; `None` if it has no such marks.
fn weight(line: &str) -> Option<u64> {
    let line = line.trim_end();
    if level(line) > 0 {
        Some(OTHER_LEVEL)
    } else if line.len() > 4 && line.starts_with("**") && line.trim_end_matches(':').ends_with("**") {
        Some(BOLD)
    } else {
        None
    }
}

/// Returns the number of `#` before a heading; 0 for any other line.
fn level(line: &str) -> usize {
    line.len() - line.trim_start_matches('#').len()
}

/// Returns a heading's words without marks and without a leading number.
fn title(heading: &str) -> String {
    let words =
        heading.trim_matches(|c: char| matches!(c, '#' | '*' | ':') || c.is_whitespace()).to_lowercase();
    let unnumbered = words.trim_start_matches(|c: char| c.is_ascii_digit());
    match unnumbered.strip_prefix(['.', ')']).map(str::trim_start) {
        Some(rest) if unnumbered.len() < words.len() && !rest.is_empty() => rest.to_owned(),
        _ => words,
    }
}

/// For each line, returns true if it is inside a closed code fence. Also returns the fence that is not
/// closed, if there is one.
fn fences(lines: &[&str]) -> (Vec<bool>, Option<&'static str>) {
    let mut inside = vec![false; lines.len()];
    let mut open: Option<(usize, &'static str)> = None;
    for (number, line) in lines.iter().enumerate() {
        let line = line.trim();
        let fence = ["```", "~~~"].into_iter().find(|fence| line.starts_with(*fence));
        match (open, fence) {
            (None, Some(fence)) => open = Some((number, fence)),
            (Some((from, opened)), Some(fence))
                if fence == opened && line.chars().all(|c| fence.contains(c)) =>
            {
                inside[from..=number].fill(true);
                open = None;
            }
            _ => {}
        }
    }
    (inside, open.map(|(_, fence)| fence))
}
