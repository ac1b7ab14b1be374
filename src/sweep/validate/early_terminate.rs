//! `early_terminate`: hyperband, which is for W&B's controller to do.

use serde_json::Value;

use super::{Field, Validator, did_you_mean, field, kind, number, whole, written};
use crate::sweep::code::Code;
use crate::sweep::model::{Bands, EarlyTerminate};
use crate::sweep::problem::{nearest, quoted};
use crate::sweep::scalar::Meaning;
use crate::sweep::yaml::{Entry, Kind, join};

const KEYS: [&str; 6] = ["type", "min_iter", "max_iter", "s", "eta", "strict"];
const POINTER: &str = "/early_terminate";

impl Validator<'_> {
    pub(super) fn early_terminate(&mut self, at: Option<Field<'_>>) -> Option<EarlyTerminate> {
        let at = at?;
        let Kind::Mapping(entries) = &at.node.kind else {
            let message =
                format!("`early_terminate` must be a mapping, and this is {}", kind(at.node));
            let help = "write `early_terminate: {type: hyperband, min_iter: 3}`";
            self.fault(Code::EarlyTerminateKind, (POINTER, at.place()), message, help);
            return None;
        };
        let help = "remove it to run every run to its end";
        self.not_embedded((POINTER, at.key), "`early_terminate`", help);
        for entry in entries.iter().filter(|entry| !KEYS.contains(&entry.key.as_str())) {
            let message =
                format!("{} is no key of `early_terminate`; it is ignored", quoted(&entry.key));
            let help = did_you_mean(&entry.key, &KEYS);
            let pointer = join(POINTER, &entry.key);
            self.flaw(Code::UnknownKey, (&pointer, entry.place), message, &help);
        }
        let is_hyperband = self.stopping_type(at, field(entries, "type"));
        let eta = self.iteration(entries, "eta", "a number above 1", |node| {
            number(node).map(|number| number.float).filter(|eta| *eta > 1.0)
        });
        let strict = self.strict(field(entries, "strict"));
        let bands = self.bands(at, entries, eta.unwrap_or(Some(3.0)));
        let early_terminate =
            EarlyTerminate { bands: bands?, eta: eta.unwrap_or(Some(3.0))?, strict: strict? };
        is_hyperband.then_some(early_terminate)
    }

    fn stopping_type(&mut self, at: Field<'_>, field: Option<Field<'_>>) -> bool {
        let pointer = join(POINTER, "type");
        let Some(field) = field else {
            let (message, help) = ("`early_terminate` has no `type`", "add `type: hyperband`");
            self.fault(Code::EarlyTerminateType, (&pointer, at.key), message, help);
            return false;
        };
        let name = field.text().unwrap_or_default();
        if name != "hyperband" {
            let message = format!("there is no `early_terminate` {}", quoted(written(field.node)));
            let help = match nearest(name, &["hyperband"]) {
                Some(_) => "did you mean `hyperband`?",
                None => "hyperband is the only one",
            };
            self.fault(Code::EarlyTerminateType, (&pointer, field.place()), message, help);
        }
        name == "hyperband"
    }

    /// A key's number: `None` if it is not given, and `Some(None)` if it is wrong.
    fn iteration(
        &mut self,
        entries: &[Entry],
        key: &str,
        wanted: &str,
        read: impl Fn(&crate::sweep::yaml::Node) -> Option<f64>,
    ) -> Option<Option<f64>> {
        let field = field(entries, key)?;
        let value = read(field.node);
        if value.is_none() {
            let what = match written(field.node) {
                "" => kind(field.node).to_owned(),
                text => quoted(text),
            };
            let message = format!("`{key}` must be {wanted}, and this is {what}");
            let pointer = join(POINTER, key);
            self.fault(Code::EarlyTerminateValue, (&pointer, field.place()), message, "");
        }
        Some(value)
    }

    /// `None` if it is wrong.
    fn strict(&mut self, field: Option<Field<'_>>) -> Option<Option<bool>> {
        let Some(field) = field else { return Some(None) };
        if let Some(Meaning::Value(Value::Bool(strict))) =
            field.node.scalar().map(|scalar| &scalar.meaning)
        {
            return Some(Some(*strict));
        }
        let message = format!("`strict` must be true or false, and this is {}", kind(field.node));
        let help = if field.text().is_some() { "remove the quotes" } else { "" };
        let pointer = join(POINTER, "strict");
        self.fault(Code::EarlyTerminateValue, (&pointer, field.place()), message, help);
        None
    }

    fn bands(&mut self, at: Field<'_>, entries: &[Entry], eta: Option<f64>) -> Option<Bands> {
        let least = |node: &_| whole(node).filter(|iteration| *iteration >= 1.0);
        let min_iter = self.iteration(entries, "min_iter", "an integer of at least 1", least);
        let max_iter = self.iteration(entries, "max_iter", "an integer", whole);
        let s = self.iteration(entries, "s", "a number", |node| Some(number(node)?.float));
        match (min_iter, max_iter, s) {
            (_, Some(max_iter), Some(s)) => self.bands_below(at, entries, (max_iter?, s?), eta?),
            // W&B's controller then looks for `s`, and fails.
            (Some(_), Some(_), None) => {
                let message = "`max_iter` needs `s`, the number of bands below it";
                let help = "add `s: 2`, or remove `max_iter`";
                self.error(Code::EarlyTerminateIncomplete, (POINTER, at.key), message, help);
                None
            }
            (Some(min_iter), None, _) =>
            {
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "at least 1, and saturates"
                )]
                min_iter.map(|min_iter| Bands::Min { min_iter: min_iter as u64 })
            }
            (None, max_iter, s) => {
                let message = match (max_iter, s) {
                    (Some(_), None) => "`max_iter` needs `s`, the number of bands below it",
                    (None, Some(_)) => "`s` needs `max_iter`",
                    _ => "`early_terminate` needs `min_iter`, or `max_iter` and `s`",
                };
                let help =
                    "write `min_iter: 3`: runs are compared after 3, 9, 27, ... logged values";
                self.fault(Code::EarlyTerminateIncomplete, (POINTER, at.key), message, help);
                None
            }
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked, or saturates"
    )]
    fn bands_below(
        &mut self,
        at: Field<'_>,
        entries: &[Entry],
        (max_iter, s): (f64, f64),
        eta: f64,
    ) -> Option<Bands> {
        let exact = field(entries, "s").and_then(|field| number(field.node)?.exact);
        if !exact.is_some_and(|s| s.is_i64() || s.is_u64()) {
            let message = "`s` must be an integer: W&B's controller fails otherwise";
            let place = field(entries, "s").map_or(at.key, |field| field.place());
            self.error(Code::EarlyTerminateValue, (&join(POINTER, "s"), place), message, "");
            return None;
        }
        if s < 1.0 || max_iter / eta < 1.0 {
            let message =
                format!("there is no band below `max_iter`: it is {max_iter}, and `eta` {eta}");
            let help = "make `max_iter` larger than `eta`, and `s` at least 1";
            self.error(Code::EarlyTerminateNoBand, (POINTER, at.key), message, help);
            return None;
        }
        Some(Bands::Max { max_iter: max_iter as u64, s: s as u64 })
    }
}
