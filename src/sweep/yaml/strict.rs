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
pub(super) fn find<'a>(lines: impl Iterator<Item = &'a str>, opaque: &[Opaque]) -> Option<Refused> {
    let mut opaque = opaque.iter().peekable();
    let mut quote = None;
    let mut skip_to = 0;
    for (number, line) in (1..).zip(lines) {
        if number < skip_to {
            continue;
        }
        let mut names = Names { line, end: 0 };
        let mut chars = (1..).zip(line.char_indices()).peekable();
        while let Some((column, (at, c))) = chars.next() {
            let next = chars.peek().map(|(_, (_, next))| *next);
            match quote {
                Some('\'') if c == '\'' && next == Some('\'') => drop(chars.next()),
                Some('"') if c == '\\' => drop(chars.next()),
                Some(open) => quote = quote.filter(|_| c != open),
                None => {
                    let here = Place { line: number, column };
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
                    } else if c == '&' && names.anchor_has_colon(at) {
                        return Some(Refused::Anchor(here));
                    } else if c == '#' && (at == 0 || line[..at].ends_with(' ')) {
                        break;
                    }
                }
            }
        }
    }
    None
}

/// The names of a line's anchors.
struct Names<'a> {
    line: &'a str,
    /// Where the name ends that was looked at last: it may hold many `&`.
    end: usize,
}

impl Names<'_> {
    /// Whether the anchor that starts here, if it does, has a name that ends with a colon.
    fn anchor_has_colon(&mut self, at: usize) -> bool {
        let (before, name) = self.line.split_at(at);
        let starts = before.trim_end_matches(' ').chars().next_back();
        if !starts.is_none_or(|c| ":-?,[{".contains(c)) {
            return false;
        }
        if self.end <= at {
            let ends_name = |c: char| c.is_whitespace() || ",[]{}".contains(c);
            self.end = at + name.find(ends_name).unwrap_or(name.len());
        }
        self.line[..self.end].ends_with(':')
    }
}
