//! YAML text to a tree of nodes that know their place in the file.
//!
//! The grammar is yaml-rust2's; what scalars mean is ours ([`super::scalar`]). The tree is bounded
//! in size and depth, so that aliases cannot blow it up.

mod strict;

use std::collections::HashMap;

use serde_json::{Map, Value};
use yaml_rust2::parser::{Event, Parser, Tag};
use yaml_rust2::scanner::{Marker, ScanError, TScalarStyle};

use self::strict::{Opaque, OpaqueKind, Refused};
use super::code::Code;
use super::problem::quoted;
use super::scalar::{self, Meaning};
use super::{python, special};

const MOST_BYTES: usize = 8 << 20;
const MOST_NODES: usize = 100_000;
const MOST_DEPTH: usize = 128;

/// A place in the file, both from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

/// The first place of a file.
pub(crate) const START: Place = Place { line: 1, column: 1 };

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) place: Place,
    pub(crate) kind: Kind,
}

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Scalar(Scalar),
    List(Vec<Node>),
    Mapping(Vec<Entry>),
}

#[derive(Clone, Debug)]
pub(crate) struct Scalar {
    /// As written, but for quotes and line breaks.
    pub(crate) text: String,
    /// Neither quoted nor a block nor tagged.
    pub(crate) plain: bool,
    pub(crate) meaning: Meaning,
}

/// One key with its value; the keys of a mapping differ.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// The key as it arrives at W&B: always text.
    pub(crate) key: String,
    /// As written, where that differs.
    pub(crate) written: Option<String>,
    /// As W&B's client has it before it is sent: Python's text and the name of its type.
    pub(crate) python: (String, &'static str),
    pub(crate) place: Place,
    pub(crate) value: Node,
}

impl Node {
    /// The node as a value, `None` if a date is in it.
    pub(crate) fn value(&self) -> Option<Value> {
        match &self.kind {
            Kind::Scalar(scalar) => scalar.value(),
            Kind::List(items) => items.iter().map(Self::value).collect(),
            Kind::Mapping(entries) => {
                let mut map = Map::new();
                for entry in entries {
                    map.insert(entry.key.clone(), entry.value.value()?);
                }
                // W&B's client sends mappings with sorted keys, and so they arrive at runs.
                map.sort_keys();
                Some(Value::Object(map))
            }
        }
    }

    /// Whether this is a null, written or left out.
    pub(crate) fn is_null(&self) -> bool {
        matches!(self.scalar(), Some(Scalar { meaning: Meaning::Value(Value::Null), .. }))
    }

    pub(crate) fn scalar(&self) -> Option<&Scalar> {
        match &self.kind {
            Kind::Scalar(scalar) => Some(scalar),
            _ => None,
        }
    }
}

impl Scalar {
    /// The value here, `None` for a date.
    pub(crate) fn value(&self) -> Option<Value> {
        match &self.meaning {
            Meaning::Value(value) => Some(value.clone()),
            Meaning::Scientific(number) => Some(Value::Number(number.clone())),
            Meaning::Date { .. } => None,
        }
    }

    /// The text that this is for W&B's client, `1e-5` among others.
    pub(crate) fn as_text(&self) -> Option<&str> {
        match &self.meaning {
            Meaning::Value(Value::String(text)) => Some(text),
            Meaning::Scientific(_) => Some(&self.text),
            _ => None,
        }
    }
}

/// Why the text is no tree.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) code: Code,
    pub(crate) place: Place,
    pub(crate) message: String,
    pub(crate) help: Option<String>,
}

/// A key given twice: the pointer of its mapping, the key and both places.
#[derive(Debug)]
pub(crate) struct Duplicate {
    pub(crate) pointer: String,
    pub(crate) key: String,
    pub(crate) first: Place,
    pub(crate) last: Place,
}

/// A file's only document.
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) root: Node,
    pub(crate) duplicates: Vec<Duplicate>,
}

fn fault(code: Code, place: Place, message: impl Into<String>) -> Fault {
    Fault { code, place, message: message.into(), help: None }
}

impl Fault {
    fn help(self, help: &str) -> Self {
        Self { help: Some(help.to_owned()), ..self }
    }
}

/// Appends one reference token to a JSON pointer.
pub(crate) fn join(pointer: &str, token: &str) -> String {
    format!("{pointer}/{}", token.replace('~', "~0").replace('/', "~1"))
}

/// Parses one document.
pub(crate) fn parse(bytes: &[u8]) -> Result<Document, Fault> {
    if bytes.len() > MOST_BYTES {
        return Err(fault(Code::FileTooLarge, START, "the file is larger than 8 MiB"));
    }
    let text = decode(bytes)?;
    let mut reader = Reader {
        parser: Parser::new_from_str(text),
        text,
        cursor: Cursor { text, index: 0, byte: 0 },
        anchors: HashMap::new(),
        nodes: 0,
        duplicates: Vec::new(),
        opaque: Vec::new(),
        opens_flow: false,
    };
    let root = reader.document()?;
    match strict::find(lines(text), &reader.opaque) {
        Some(Refused::Tab(place)) => return Err(reader.tab(place)),
        Some(Refused::Anchor(place)) => {
            let message = "an anchor's name cannot have a colon: W&B reads something else";
            return Err(fault(Code::YamlSyntax, place, message));
        }
        None => {}
    }
    Ok(Document { root, duplicates: reader.duplicates })
}

/// Lines as yaml-rust2 counts them: a lone carriage return ends one too.
///
/// Never collected: a file may be nothing but line ends.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.split('\n').flat_map(|line| line.strip_suffix('\r').unwrap_or(line).split('\r'))
}

/// Bytes to text without a byte order mark, refusing what YAML cannot hold.
fn decode(bytes: &[u8]) -> Result<&str, Fault> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let (good, _) = bytes.split_at_checked(error.valid_up_to()).unwrap_or((bytes, &[]));
            let place = place_after(std::str::from_utf8(good).unwrap_or_default());
            let fault = fault(Code::NotUtf8, place, "the file is not UTF-8 text");
            return Err(fault.help("save it as UTF-8"));
        }
    };
    let unprintable = |c: char| match c {
        '\t' | '\n' | '\r' => false,
        c => c.is_control() || ENDS_OF_LINES.contains(&c) || matches!(c, '\u{fffe}' | '\u{ffff}'),
    };
    if let Some((at, c)) = text.char_indices().find(|(_, c)| unprintable(*c)) {
        let place = place_after(text.get(..at).unwrap_or_default());
        let message = if ENDS_OF_LINES.contains(&c) {
            format!("W&B takes the character U+{:04X} for the end of a line", u32::from(c))
        } else {
            format!("YAML does not allow the control character U+{:04X}", u32::from(c))
        };
        return Err(fault(Code::ControlCharacter, place, message));
    }
    Ok(text)
}

/// What ends a line in YAML 1.1 only, and so for W&B's reader but not for yaml-rust2.
const ENDS_OF_LINES: [char; 3] = ['\u{85}', '\u{2028}', '\u{2029}'];

fn place_after(text: &str) -> Place {
    let (number, last) = (1..).zip(lines(text)).last().unwrap_or((1, ""));
    Place { line: number, column: last.chars().count() + 1 }
}

struct Anchored {
    node: Node,
    nodes: usize,
    depth: usize,
}

struct Reader<'a> {
    parser: Parser<std::str::Chars<'a>>,
    text: &'a str,
    cursor: Cursor<'a>,
    anchors: HashMap<usize, Anchored>,
    nodes: usize,
    duplicates: Vec<Duplicate>,
    opaque: Vec<Opaque>,
    /// Whether the last event opened a `[...]` or `{...}`.
    opens_flow: bool,
}

/// A place in a text, counted in characters and in bytes.
struct Cursor<'a> {
    text: &'a str,
    index: usize,
    byte: usize,
}

impl Cursor<'_> {
    /// The character of this index. Neighbours are found fast, as events come in order.
    fn char_at(&mut self, index: usize) -> Option<char> {
        while self.index > index {
            let before = self.text.get(..self.byte)?.chars().next_back()?;
            self.index -= 1;
            self.byte -= before.len_utf8();
        }
        loop {
            let here = self.text.get(self.byte..)?.chars().next()?;
            if self.index == index {
                return Some(here);
            }
            self.index += 1;
            self.byte += here.len_utf8();
        }
    }
}

impl Reader<'_> {
    fn document(&mut self) -> Result<Node, Fault> {
        let empty = |place| fault(Code::Empty, place, "the file is empty");
        loop {
            match self.next()? {
                (Event::StreamStart | Event::Nothing, _) => {}
                (Event::DocumentStart, _) => break,
                _ => return Err(empty(START)),
            }
        }
        let (event, place) = self.next()?;
        let (root, _) = self.node(event, place, Nesting::ROOT)?;
        loop {
            match self.next()? {
                (Event::DocumentEnd | Event::Nothing, _) => {}
                (Event::StreamEnd, _) => break,
                (_, place) => {
                    let message = "the file holds several documents, and a sweep is one";
                    return Err(fault(Code::SeveralDocuments, place, message)
                        .help("remove the `---` or move the rest to a file of its own"));
                }
            }
        }
        // What Python counts as false is empty for W&B's client.
        let is_empty = match &root.kind {
            Kind::Mapping(entries) => entries.is_empty(),
            Kind::List(items) => items.is_empty(),
            Kind::Scalar(scalar) => match &scalar.meaning {
                Meaning::Value(Value::Null | Value::Bool(false)) => true,
                Meaning::Value(Value::String(text)) => text.is_empty(),
                Meaning::Value(Value::Number(number)) => number.as_f64() == Some(0.0),
                _ => false,
            },
        };
        if is_empty { Err(empty(START)) } else { Ok(root) }
    }

    fn next(&mut self) -> Result<(Event, Place), Fault> {
        let (mut event, place, at) = match self.parser.next_token() {
            Ok((event, mark)) => {
                // The index counts characters, whatever its documentation says.
                self.opens_flow =
                    matches!(event, Event::SequenceStart(..) | Event::MappingStart(..))
                        && matches!(self.cursor.char_at(mark.index()), Some('[' | '{'));
                (event, place(mark), mark.index())
            }
            Err(error) => return Err(self.syntax(&error)),
        };
        // A block ends where the next thing starts.
        if let Some(Opaque { start, kind: OpaqueKind::Block { until } }) = self.opaque.last_mut()
            && *until == 0
        {
            *until = place.line.max(start.line + 1);
        }
        if let Event::Scalar(text, TScalarStyle::Literal | TScalarStyle::Folded, ..) = &mut event {
            self.end_as_the_file_does(text);
            // A block with nothing below it, which ends the file: its header is where it stands, and
            // PyYAML keeps line ends only for `+`.
            let mut is = |index: usize, of: &[char]| {
                self.cursor.char_at(index).is_some_and(|c| of.contains(&c))
            };
            if text.chars().all(|c| c == '\n')
                && is(at, &['|', '>'])
                && !(is(at + 1, &['+']) || is(at + 2, &['+']))
            {
                text.clear();
            }
        }
        if let Event::Scalar(text, style, ..) = &event {
            let kind = match style {
                TScalarStyle::SingleQuoted => Some(OpaqueKind::SingleQuoted),
                TScalarStyle::DoubleQuoted => Some(OpaqueKind::DoubleQuoted),
                TScalarStyle::Literal | TScalarStyle::Folded if !text.is_empty() => {
                    Some(OpaqueKind::Block { until: 0 })
                }
                _ => None,
            };
            self.opaque.extend(kind.map(|kind| Opaque { start: place, kind }));
        }
        Ok((event, place))
    }

    fn syntax(&self, error: &ScanError) -> Fault {
        let at = place(*error.marker());
        // A tab used as indentation is the usual cause, on this line or the one before.
        for line in [at.line, at.line.saturating_sub(1)] {
            if let Some(column) = self.tab_in_indentation(line) {
                return self.tab(Place { line, column });
            }
        }
        let line = lines(self.text).nth(at.line.saturating_sub(1)).unwrap_or_default();
        let tab = |column: usize| line.chars().nth(column - 1) == Some('\t');
        if let Some(column) =
            [at.column, at.column.saturating_sub(1).max(1)].into_iter().find(|c| tab(*c))
        {
            return self.tab(Place { line: at.line, column });
        }
        if error.info() == "simple key expect ':'" {
            return fault(Code::YamlSyntax, at, "this is not YAML: a line above lacks its `:`");
        }
        let fault = fault(Code::YamlSyntax, at, format!("this is not YAML: {}", error.info()));
        // `[${args}]` reads as text followed by a mapping.
        if line.contains("${") {
            return fault.help("within `[...]`, put every `${...}` in quotes");
        }
        fault
    }

    fn tab(&self, place: Place) -> Fault {
        let message = if self.tab_in_indentation(place.line) == Some(place.column) {
            "YAML does not allow tabs as indentation"
        } else {
            "W&B's reader does not allow tabs outside quotes and comments"
        };
        fault(Code::Tab, place, message).help("use spaces")
    }

    /// The column of a tab before a line's first character.
    fn tab_in_indentation(&self, line: usize) -> Option<usize> {
        let line = lines(self.text).nth(line.checked_sub(1)?)?;
        let blank = line.chars().take_while(|c| matches!(c, ' ' | '\t'));
        blank.enumerate().find(|(_, c)| *c == '\t').map(|(index, _)| index + 1)
    }

    /// Where the file ends in the middle of a block's last line, PyYAML adds no line end to it.
    fn end_as_the_file_does(&mut self, text: &mut String) {
        if self.text.ends_with(['\n', '\r']) || !text.ends_with('\n') {
            return;
        }
        let at_end = match self.parser.peek() {
            Ok((_, mark)) => self.cursor.char_at(mark.index()).is_none(),
            Err(_) => false,
        };
        // A comment may come last too.
        let last = self.text.rsplit(['\n', '\r']).next().map_or("", str::trim);
        if at_end && !last.is_empty() && text.trim_end().ends_with(last) {
            text.pop();
        }
    }

    /// Also returns the depth of the node: 1 for a scalar.
    fn node(
        &mut self,
        event: Event,
        place: Place,
        nesting: Nesting<'_>,
    ) -> Result<(Node, usize), Fault> {
        if nesting.level > MOST_DEPTH {
            return Err(too_deep(place));
        }
        let flow = nesting.flow || self.opens_flow;
        let before = self.nodes;
        self.count(1, place)?;
        let (kind, anchor, depth) = match event {
            Event::Alias(anchor) => return self.alias(anchor, place, nesting.level),
            Event::Scalar(text, style, anchor, tag) => {
                let meaning = meaning(&text, style, tag.as_ref(), place)?;
                if nesting.flow && style == TScalarStyle::Plain {
                    check_flow_text(&text, place)?;
                }
                let plain = style == TScalarStyle::Plain && tag.is_none();
                (Kind::Scalar(Scalar { text, plain, meaning }), anchor, 1)
            }
            Event::SequenceStart(anchor, tag) => {
                check_tag(tag.as_ref(), "seq", place)?;
                let (items, depth) = self.list(nesting, flow)?;
                (Kind::List(items), anchor, depth + 1)
            }
            Event::MappingStart(anchor, tag) => {
                check_tag(tag.as_ref(), "map", place)?;
                let (entries, depth) = self.mapping(nesting, flow)?;
                (Kind::Mapping(entries), anchor, depth + 1)
            }
            _ => {
                return Err(fault(Code::YamlSyntax, place, "this is not YAML: a value is missing"));
            }
        };
        let node = Node { place, kind };
        if anchor > 0 {
            let nodes = self.nodes - before;
            // The copy kept for aliases counts too, or nested anchors would cost a square.
            self.count(nodes, place)?;
            self.anchors.insert(anchor, Anchored { node: node.clone(), nodes, depth });
        }
        Ok((node, depth))
    }

    fn count(&mut self, nodes: usize, place: Place) -> Result<(), Fault> {
        self.nodes = self.nodes.saturating_add(nodes);
        if self.nodes > MOST_NODES {
            let message = format!("the file has more than {MOST_NODES} values, aliases expanded");
            return Err(fault(Code::TooManyValues, place, message));
        }
        Ok(())
    }

    fn alias(&mut self, anchor: usize, place: Place, level: usize) -> Result<(Node, usize), Fault> {
        let Some(Anchored { nodes, depth, .. }) = self.anchors.get(&anchor) else {
            return Err(fault(
                Code::AliasLoop,
                place,
                "this alias refers to a value it is part of",
            ));
        };
        let (nodes, depth) = (*nodes, *depth);
        if level + depth > MOST_DEPTH + 1 {
            return Err(too_deep(place));
        }
        self.count(nodes, place)?;
        match self.anchors.get(&anchor) {
            Some(anchored) => Ok((Node { place, kind: anchored.node.kind.clone() }, depth)),
            None => Err(fault(Code::AliasLoop, place, "this alias refers to nothing")),
        }
    }

    fn list(&mut self, nesting: Nesting<'_>, flow: bool) -> Result<(Vec<Node>, usize), Fault> {
        let (mut items, mut deepest) = (Vec::new(), 0);
        loop {
            let (event, place) = self.next()?;
            if event == Event::SequenceEnd {
                return Ok((items, deepest));
            }
            let inside = nesting.below(Token::Index(items.len()), flow);
            let (item, depth) = self.node(event, place, inside)?;
            deepest = deepest.max(depth);
            items.push(item);
        }
    }

    fn mapping(&mut self, nesting: Nesting<'_>, flow: bool) -> Result<(Vec<Entry>, usize), Fault> {
        let mut own = Entries::default();
        let mut merged = Entries::default();
        let mut deepest = 0;
        loop {
            let (event, place) = self.next()?;
            if event == Event::MappingEnd {
                break;
            }
            let plain_merge = matches!(
                &event,
                Event::Scalar(text, TScalarStyle::Plain, _, None) if text == "<<"
            );
            let key = if plain_merge {
                Key { text: "<<".to_owned(), written: None, python: ("<<".to_owned(), "str") }
            } else {
                let (node, _) = self.node(event, place, nesting.below(Token::Key(""), flow))?;
                key(&node)?
            };
            let (event, value_place) = self.next()?;
            let inside = nesting.below(Token::Key(&key.text), flow);
            let (value, depth) = self.node(event, value_place, inside)?;
            deepest = deepest.max(depth);
            if plain_merge {
                for entry in merge_sources(value)? {
                    merged.put_if_new(entry);
                }
                continue;
            }
            if let Some(first) = own.place_of(&key.text) {
                let (pointer, key) = (inside.pointer(), key.text.clone());
                self.duplicates.push(Duplicate { pointer, key, first, last: place });
            }
            let Key { text, written, python } = key;
            own.put(Entry { key: text, written, python, place, value });
        }
        if merged.list.is_empty() {
            return Ok((own.list, deepest));
        }
        // PyYAML's order: what was merged comes first, and own keys win.
        for entry in own.list {
            merged.put(entry);
        }
        Ok((merged.list, deepest))
    }
}

/// Entries with an index by key, as a mapping may have 100,000.
#[derive(Default)]
struct Entries {
    list: Vec<Entry>,
    index: HashMap<String, usize>,
}

impl Entries {
    fn place_of(&self, key: &str) -> Option<Place> {
        let at = self.index.get(key)?;
        Some(self.list.get(*at)?.place)
    }

    /// The last entry of a key wins, at the first one's rank.
    fn put(&mut self, entry: Entry) {
        match self.index.get(&entry.key).and_then(|at| self.list.get_mut(*at)) {
            Some(slot) => *slot = entry,
            None => {
                self.index.insert(entry.key.clone(), self.list.len());
                self.list.push(entry);
            }
        }
    }

    fn put_if_new(&mut self, entry: Entry) {
        if !self.index.contains_key(&entry.key) {
            self.put(entry);
        }
    }
}

fn merge_sources(value: Node) -> Result<Vec<Entry>, Fault> {
    let wrong = |place| {
        fault(Code::MergeKey, place, "the merge key `<<` needs a mapping or a list of mappings")
    };
    match value.kind {
        Kind::Mapping(entries) => Ok(entries),
        Kind::List(items) => {
            let mut all = Vec::new();
            for item in items {
                let Kind::Mapping(entries) = item.kind else { return Err(wrong(item.place)) };
                all.extend(entries);
            }
            Ok(all)
        }
        Kind::Scalar(_) => Err(wrong(value.place)),
    }
}

/// Where a node is: how deep, whether within brackets, and under which keys.
#[derive(Clone, Copy)]
struct Nesting<'a> {
    level: usize,
    flow: bool,
    above: Option<(&'a Nesting<'a>, Token<'a>)>,
}

/// A reference token of a JSON pointer.
#[derive(Clone, Copy)]
enum Token<'a> {
    Key(&'a str),
    Index(usize),
}

impl<'a> Nesting<'a> {
    const ROOT: Self = Self { level: 1, flow: false, above: None };

    fn below(&'a self, token: Token<'a>, flow: bool) -> Self {
        Self { level: self.level + 1, flow, above: Some((self, token)) }
    }

    fn pointer(&self) -> String {
        match self.above {
            None => String::new(),
            Some((above, Token::Key(key))) => join(&above.pointer(), key),
            Some((above, Token::Index(index))) => format!("{}/{index}", above.pointer()),
        }
    }
}

/// Within brackets PyYAML takes `?` for the start of a key, and a colon in front for a fault.
fn check_flow_text(text: &str, place: Place) -> Result<(), Fault> {
    if text.starts_with(':') || text.contains('?') {
        let message = format!("within brackets {} must be in quotes", quoted(text));
        return Err(fault(Code::YamlSyntax, place, message));
    }
    Ok(())
}

struct Key {
    text: String,
    written: Option<String>,
    python: (String, &'static str),
}

/// A key as it arrives at W&B, and what it is before.
fn key(node: &Node) -> Result<Key, Fault> {
    let Some(scalar) = node.scalar() else {
        return Err(fault(Code::KeyKind, node.place, "a key must be text"));
    };
    if scalar.plain && scalar.text.is_empty() {
        return Err(fault(Code::YamlSyntax, node.place, "this is not YAML: no key before the `:`"));
    }
    let (python, kind) = scalar.python();
    let python = match &scalar.meaning {
        Meaning::Date { .. } => scalar.text.clone(),
        _ => python::python_text(&python),
    };
    let text = match &scalar.meaning {
        // As Python's `json.dumps` has keys.
        Meaning::Value(value @ (Value::Bool(_) | Value::Null)) => value.to_string(),
        Meaning::Value(value) => match special::text(value) {
            Some("inf") => "Infinity".to_owned(),
            Some("-inf") => "-Infinity".to_owned(),
            Some("nan") => "NaN".to_owned(),
            _ => python.clone(),
        },
        _ => python.clone(),
    };
    let written = (text != scalar.text).then(|| scalar.text.clone());
    Ok(Key { text, written, python: (python, kind) })
}

fn meaning(
    text: &str,
    style: TScalarStyle,
    tag: Option<&Tag>,
    place: Place,
) -> Result<Meaning, Fault> {
    let as_text = || Ok(Meaning::Value(Value::from(text)));
    let refused = |why| fault(Code::YamlValue, place, why).help("put it in quotes");
    // PyYAML takes `!` to mean that a scalar is read as if it were plain, quoted or not.
    let bare = tag.is_some_and(|tag| tag.handle.is_empty() && tag.suffix == "!");
    let Some(tag) = tag.filter(|_| !bare) else {
        let plain = bare || style == TScalarStyle::Plain;
        return match text.chars().next().filter(|_| plain) {
            // yaml-rust2 lets these pass within `[...]`; nobody else does.
            Some(c @ ('|' | '>' | '%' | '@' | '`')) => {
                let message = format!("this is not YAML: plain text cannot start with {c}");
                Err(fault(Code::YamlSyntax, place, message).help("put it in quotes"))
            }
            _ if plain => scalar::resolve(text).map_err(refused),
            _ => as_text(),
        };
    };
    let wrong = || fault(Code::Tag, place, format!("{} does not fit its tag", quoted(text)));
    let value = match core_tag(tag) {
        Some("str") => return as_text(),
        Some("int") => scalar::int(text).ok_or_else(wrong)?.map_err(refused)?,
        Some("float") => {
            let whole = || scalar::int(text)?.ok()?.as_f64();
            scalar::float_value(scalar::float(text).or_else(whole).ok_or_else(wrong)?)
        }
        Some("bool") => match scalar::resolve(text) {
            Ok(Meaning::Value(value @ Value::Bool(_))) => value,
            _ => return Err(wrong()),
        },
        Some("null") => Value::Null,
        _ => return Err(unknown_tag(tag, place)),
    };
    Ok(Meaning::Value(value))
}

/// The name of one of YAML's own tags.
fn core_tag(tag: &Tag) -> Option<&str> {
    let whole = format!("{}{}", tag.handle, tag.suffix);
    let name = whole.strip_prefix("tag:yaml.org,2002:").or_else(|| whole.strip_prefix("!!"))?;
    ["str", "int", "float", "bool", "null", "seq", "map"].into_iter().find(|known| *known == name)
}

fn check_tag(tag: Option<&Tag>, wanted: &str, place: Place) -> Result<(), Fault> {
    match tag {
        Some(tag) if core_tag(tag) != Some(wanted) => Err(unknown_tag(tag, place)),
        _ => Ok(()),
    }
}

fn unknown_tag(tag: &Tag, place: Place) -> Fault {
    let name = format!("{}{}", tag.handle, tag.suffix);
    fault(Code::Tag, place, format!("the tag {} has no meaning here", quoted(&name)))
}

fn too_deep(place: Place) -> Fault {
    fault(Code::TooDeep, place, format!("the file nests deeper than {MOST_DEPTH} levels"))
}

fn place(mark: Marker) -> Place {
    Place { line: mark.line().max(1), column: mark.col() + 1 }
}
