//! Keys of W&B Launch and of searches of one's own: checked, and not used.

use super::{Field, Validator, did_you_mean, field, kind, written};
use crate::sweep::code::Code;
use crate::sweep::model::Method;
use crate::sweep::problem::quoted;
use crate::sweep::yaml::{Entry, Kind, join};

const SCHEDULER: [&str; 4] = ["engine", "source", "optimizer", "search_space"];
const ENGINES: [&str; 3] = ["wandb", "optuna", "ax"];

/// Whether a scheduler brings the parameters with it.
pub(super) fn has_search_space(entries: &[Entry]) -> bool {
    let Some(Kind::Mapping(scheduler)) = field(entries, "scheduler").map(|at| &at.node.kind) else {
        return false;
    };
    field(scheduler, "search_space").is_some_and(|space| match &space.node.kind {
        Kind::Scalar(scalar) => !matches!(scalar.text.as_str(), "" | "0" | "0.0" | "false" | "~"),
        Kind::List(items) => !items.is_empty(),
        Kind::Mapping(entries) => !entries.is_empty(),
    })
}

impl Validator<'_> {
    pub(super) fn launch(&mut self, entries: &[Entry], method: Option<Method>) {
        for key in ["job", "image_uri"] {
            if let Some(at) = field(entries, key) {
                self.text(entries, key);
                let message = format!("`{key}` is for W&B Launch; it is ignored");
                self.warn(Code::LaunchKey, (&join("", key), at.key), message, "");
            }
        }
        if let Some(at) = field(entries, "metrics") {
            self.metrics(at, entries, method);
        }
        if let Some(at) = field(entries, "scheduler").filter(|at| !at.node.is_null()) {
            self.scheduler(at, method);
            self.beside_scheduler(entries);
        } else if let Some(at) = field(entries, "scheduler") {
            let message = "`scheduler` is empty";
            self.flaw(Code::LaunchKind, ("/scheduler", at.key), message, "remove it");
        }
    }

    fn metrics(&mut self, at: Field<'_>, entries: &[Entry], method: Option<Method>) {
        let pointer = "/metrics";
        let here = (pointer, at.place());
        let message = "`metrics` is for searches of your own; it is ignored";
        self.warn(Code::LaunchKey, (pointer, at.key), message, "");
        match &at.node.kind {
            Kind::List(items) => {
                if items.len() < 2 {
                    let message = "`metrics` needs at least two metrics";
                    self.flaw(Code::LaunchKind, here, message, "use `metric` for one");
                }
                for (index, node) in items.iter().enumerate() {
                    let metric = Field { key: node.place, node };
                    self.metric(&join(pointer, &index.to_string()), metric, false, None);
                }
            }
            _ => {
                let message = format!("`metrics` must be a list, and this is {}", kind(at.node));
                self.flaw(Code::LaunchKind, here, message, "use `metric` for one");
            }
        }
        let message = if field(entries, "metric").is_some() {
            "`metrics` and `metric` exclude each other"
        } else if field(entries, "method").is_some() && method != Some(Method::Custom) {
            "`metrics` needs `method: custom`"
        } else {
            return;
        };
        self.flaw(Code::LaunchConflict, (pointer, at.key), message, "");
    }

    fn scheduler(&mut self, at: Field<'_>, method: Option<Method>) {
        let pointer = "/scheduler";
        let message = "`scheduler` is for W&B Launch; it is ignored";
        self.warn(Code::LaunchKey, (pointer, at.key), message, "");
        let Kind::Mapping(entries) = &at.node.kind else {
            let message = format!("`scheduler` must be a mapping, and this is {}", kind(at.node));
            self.flaw(Code::LaunchKind, (pointer, at.place()), message, "");
            return;
        };
        for entry in entries {
            let below = join(pointer, &entry.key);
            let here = (below.as_str(), entry.place);
            if !SCHEDULER.contains(&entry.key.as_str()) {
                let message = format!("{} is no key of a scheduler", quoted(&entry.key));
                self.flaw(Code::UnknownKey, here, message, &did_you_mean(&entry.key, &SCHEDULER));
            } else if entry.value.scalar().is_none_or(|scalar| scalar.as_text().is_none()) {
                let message = format!("`{}` must be text", entry.key);
                self.flaw(Code::LaunchKind, here, message, "");
            } else if matches!(entry.key.as_str(), "optimizer" | "search_space")
                && field(entries, "source").is_none()
            {
                let message = format!("`{}` needs `source`, the file it is in", entry.key);
                self.flaw(Code::LaunchKind, here, message, "");
            }
        }
        let below = join(pointer, "engine");
        let Some(engine) = field(entries, "engine") else {
            let message = "`scheduler` has no `engine`";
            self.flaw(Code::LaunchKind, (&below, at.key), message, "use wandb, optuna or ax");
            return;
        };
        let here = (below.as_str(), engine.place());
        let name = engine.text().unwrap_or_default();
        let fits = match name {
            "wandb" => matches!(method, Some(Method::Grid | Method::Random | Method::Bayes)),
            "optuna" | "ax" => method == Some(Method::Custom),
            _ => {
                let message = format!("there is no engine {}", quoted(written(engine.node)));
                let mut help = did_you_mean(name, &ENGINES);
                if help.is_empty() {
                    "use wandb, optuna or ax".clone_into(&mut help);
                }
                self.flaw(Code::LaunchKind, here, message, &help);
                return;
            }
        };
        if !fits {
            let (message, help) = match name {
                "wandb" => ("engine `wandb` does grid, random and bayes", "change `method`"),
                _ => ("this engine needs `method: custom`", "change `method`"),
            };
            self.flaw(Code::LaunchConflict, here, message, help);
        }
    }

    fn beside_scheduler(&mut self, entries: &[Entry]) {
        if let Some(at) = field(entries, "early_terminate") {
            let message = "`early_terminate` and `scheduler` exclude each other";
            self.flaw(Code::LaunchConflict, ("/early_terminate", at.key), message, "");
        }
        if let Some(at) = field(entries, "controller")
            && let Kind::Mapping(controller) = &at.node.kind
            && field(controller, "type").is_some_and(|kind| kind.text() == Some("local"))
        {
            let message = "a local `controller` and `scheduler` exclude each other";
            self.flaw(Code::LaunchConflict, ("/controller", at.key), message, "");
        }
    }
}
