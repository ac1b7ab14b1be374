//! What yaml-rust2 takes, and PyYAML refuses or reads as something else.
//!
//! A tab is no blank for PyYAML: it is allowed in quotes, comments and block text. A colon ends the
//! name of an anchor, so that `&a: 1` has an empty key.

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

#[derive(Debug)]
pub(super) enum Refused {
    Tab(Place),
    Anchor(Place),
}

/// The first such place; `opaque` is in the file's order.
pub(super) fn find(lines: &[&str], opaque: &[Opaque]) -> Option<Refused> {
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
                        return Some(Refused::Tab(here));
                    } else if c == '&' && has_colon(&chars, at) {
                        return Some(Refused::Anchor(here));
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

/// Whether the anchor that starts here, if it does, has a name that ends with a colon.
fn has_colon(chars: &[char], at: usize) -> bool {
    let (before, name) = chars.split_at(at);
    let before = before.iter().rev().find(|c| **c != ' ');
    let starts = before.is_none_or(|c| ":-?,[{".contains(*c));
    let ends_name = |c: &&char| c.is_whitespace() || ",[]{}".contains(**c);
    let name: Vec<&char> = name.iter().take_while(|c| !ends_name(c)).collect();
    starts && name.last() == Some(&&':')
}
