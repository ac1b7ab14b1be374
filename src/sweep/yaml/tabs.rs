//! Tabs where PyYAML refuses them: anywhere but in quotes, comments and block text.
//!
//! yaml-rust2 takes a tab for a blank; a file that only sweepctl reads helps nobody.

use super::Place;

/// A scalar that may hold tabs.
#[derive(Debug)]
pub(super) struct Opaque {
    pub(super) start: Place,
    pub(super) kind: OpaqueKind,
}

#[derive(Debug)]
pub(super) enum OpaqueKind {
    SingleQuoted,
    DoubleQuoted,
    /// The text below `|` or `>`, up to this line, which is not part of it.
    Block {
        until: usize,
    },
}

/// The first tab that PyYAML refuses; `opaque` is in the file's order.
pub(super) fn find(lines: &[&str], opaque: &[Opaque]) -> Option<Place> {
    let mut opaque = opaque.iter().peekable();
    let mut quote = None;
    let mut skip_to = 0;
    for (number, line) in (1..).zip(lines) {
        if number < skip_to {
            continue;
        }
        let chars: Vec<char> = line.chars().collect();
        let mut at = 0;
        while let Some(&c) = chars.get(at) {
            let next = chars.get(at + 1);
            match quote {
                Some('\'') if c == '\'' && next == Some(&'\'') => at += 1,
                Some('"') if c == '\\' => at += 1,
                Some(open) => quote = quote.filter(|_| c != open),
                None => {
                    let here = Place { line: number, column: at + 1 };
                    while opaque.next_if(|scalar| scalar.start < here).is_some() {}
                    if let Some(scalar) = opaque.next_if(|scalar| scalar.start == here) {
                        match scalar.kind {
                            OpaqueKind::SingleQuoted => quote = Some('\''),
                            OpaqueKind::DoubleQuoted => quote = Some('"'),
                            OpaqueKind::Block { until } => {
                                skip_to = until;
                                break;
                            }
                        }
                    } else if c == '\t' {
                        return Some(here);
                    } else if c == '#'
                        && at.checked_sub(1).is_none_or(|before| chars[before] == ' ')
                    {
                        break;
                    }
                }
            }
            at += 1;
        }
    }
    None
}
