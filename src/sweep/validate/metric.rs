//! `metric`: what a sweep optimises.

use serde_json::Value;

use super::{Field, Validator, did_you_mean, field, kind, number, written};
use crate::sweep::code::Code;
use crate::sweep::model::{Goal, Method, Metric};
use crate::sweep::problem::{nearest, quoted};
use crate::sweep::scalar::Meaning;
use crate::sweep::yaml::{Entry, Kind, join};

const KEYS: [&str; 5] = ["name", "goal", "target", "impute", "impute_while_running"];

impl Validator<'_> {
    /// The sweep's metric, which bayes and early termination cannot do without.
    pub(super) fn sweep_metric(
        &mut self,
        entries: &[Entry],
        method: Option<Method>,
    ) -> Option<Metric> {
        let stops = field(entries, "early_terminate").map(|field| ("`early_terminate`", field.key));
        let asks = field(entries, "method")
            .filter(|_| method == Some(Method::Bayes))
            .map(|field| ("bayes", field.key))
            .or(stops);
        if let Some(metric) = field(entries, "metric") {
            let metric = self.metric("/metric", metric, asks.is_some(), method)?;
            return Some(metric);
        }
        if let Some((what, place)) = asks {
            let message = format!("{what} needs a `metric`, and there is none");
            let help = "add `metric: {name: loss, goal: minimize}`";
            self.error(Code::MetricMissing, ("/metric", place), message, help);
        }
        None
    }

    /// One metric; without its name it is an error only where it is `needed`.
    pub(super) fn metric(
        &mut self,
        pointer: &str,
        at: Field<'_>,
        needed: bool,
        method: Option<Method>,
    ) -> Option<Metric> {
        let here = (pointer, at.place());
        let Kind::Mapping(entries) = &at.node.kind else {
            let message = format!("a metric must be a mapping, and this is {}", kind(at.node));
            let name = at.text().filter(|name| !name.is_empty()).unwrap_or("loss");
            let help = format!("write `metric: {{name: {name}, goal: minimize}}`");
            if needed {
                self.fault(Code::MetricKind, here, message, &help);
            } else {
                self.flaw(Code::MetricKind, here, message + "; it is ignored", &help);
            }
            return None;
        };
        for entry in entries.iter().filter(|entry| !KEYS.contains(&entry.key.as_str())) {
            let message = format!("{} is no key of a metric; it is ignored", quoted(&entry.key));
            let help = did_you_mean(&entry.key, &KEYS);
            let pointer = join(pointer, &entry.key);
            self.flaw(Code::UnknownKey, (&pointer, entry.place), message, &help);
        }
        let target = field(entries, "target").and_then(|field| self.target(pointer, field));
        for (key, default) in [("impute", "worst"), ("impute_while_running", "false")] {
            if let Some(field) = field(entries, key) {
                self.impute(pointer, (key, default), field, method);
            }
        }
        let name = self.metric_name(pointer, at, entries, needed);
        let goal = self.goal(pointer, field(entries, "goal"));
        Some(Metric { name: name?, goal: goal?, target })
    }

    fn target(&mut self, pointer: &str, field: Field<'_>) -> Option<serde_json::Number> {
        let pointer = join(pointer, "target");
        let at = (pointer.as_str(), field.place());
        let Some(number) = number(field.node) else {
            let message = format!("`target` must be a number, and this is {}", kind(field.node));
            self.fault(Code::MetricTarget, at, message, "");
            return None;
        };
        if number.exact.is_none() {
            let message = format!("no run can reach the target {}", quoted(written(field.node)));
            self.error(Code::MetricTarget, at, message, "");
        }
        self.not_embedded(at, "stopping at a `target`", "remove it to run without");
        number.exact
    }

    fn impute(
        &mut self,
        pointer: &str,
        (key, default): (&str, &str),
        field: Field<'_>,
        method: Option<Method>,
    ) {
        let pointer = join(pointer, key);
        let at = (pointer.as_str(), field.place());
        let known: &[&str] = match key {
            "impute" => &["worst", "best", "latest"],
            _ => &["worst", "best", "latest", "false"],
        };
        if !field.text().is_some_and(|text| known.contains(&text)) {
            let what = quoted(written(field.node));
            let message = format!("there is no `{key}` {what}: W&B takes `{default}`");
            let is_false = field
                .node
                .scalar()
                .is_some_and(|scalar| scalar.meaning == Meaning::Value(Value::Bool(false)));
            let help = match field.text().and_then(|text| nearest(text, known)) {
                Some(known) => format!("did you mean `{known}`?"),
                None if is_false && key != "impute" => "write `\"false\"`, in quotes".to_owned(),
                None => format!("use {}", known.join(", ")),
            };
            self.flaw(Code::ImputeUnknown, at, message, &help);
        } else if !matches!(method, Some(Method::Bayes) | None) {
            let message = format!("`{key}` matters for bayes only; it is ignored");
            self.warn(Code::NoEffect, at, message, "");
        }
    }

    fn metric_name(
        &mut self,
        pointer: &str,
        metric: Field<'_>,
        entries: &[Entry],
        needed: bool,
    ) -> Option<String> {
        let pointer = join(pointer, "name");
        let name = field(entries, "name");
        let (message, help, place) = match name {
            Some(name) if !name.node.is_null() => match name.text() {
                Some("") => {
                    let at = (pointer.as_str(), name.place());
                    let help = "write the name that runs log";
                    self.error(Code::MetricName, at, "the metric's name is empty", help);
                    return None;
                }
                Some(text) => return Some(text.to_owned()),
                None => (
                    format!("the metric's name must be text, and this is {}", kind(name.node)),
                    "use quotes",
                    name.place(),
                ),
            },
            name => (
                "the metric has no name".to_owned(),
                "add `name:` with the name that runs log",
                name.map_or(metric.key, |name| name.key),
            ),
        };
        if needed {
            self.fault(Code::MetricName, (&pointer, place), message, help);
        } else {
            self.flaw(Code::MetricName, (&pointer, place), message + "; it is ignored", help);
        }
        None
    }

    fn goal(&mut self, pointer: &str, goal: Option<Field<'_>>) -> Option<Goal> {
        let Some(goal) = goal else { return Some(Goal::Minimize) };
        let name = goal.text().unwrap_or_default();
        match name {
            "minimize" => return Some(Goal::Minimize),
            "maximize" => return Some(Goal::Maximize),
            _ => {}
        }
        let message = format!(
            "there is no goal {}, and W&B would minimize without a word",
            quoted(written(goal.node))
        );
        let short = name.to_lowercase();
        let help = match nearest(name, &["minimize", "maximize"]) {
            Some(known) => format!("did you mean `{known}`?"),
            None if short.starts_with("min") => "did you mean `minimize`?".to_owned(),
            None if short.starts_with("max") => "did you mean `maximize`?".to_owned(),
            None => "use minimize or maximize".to_owned(),
        };
        self.fault(Code::GoalUnknown, (&join(pointer, "goal"), goal.place()), message, &help);
        None
    }
}
