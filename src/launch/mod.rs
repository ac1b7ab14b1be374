//! What is given to sbatch: the script and the options.

pub mod agents;
pub mod container;
pub mod environment;
pub mod logs;
pub mod request;
pub mod secret;
pub mod template;

use handlebars::{
    Context, Handlebars, Helper, HelperDef, HelperResult, Output, RenderContext, RenderErrorReason,
};
use serde::Serialize;

/// What the template may name.
#[derive(Clone, Debug, Serialize)]
pub struct ScriptContext {
    /// The job's name, token included.
    pub job_name: String,
    /// Where each task's output goes, in sbatch's own notation, relative to the folder of the job.
    pub output: String,
    /// Where its errors go, if not to the same file.
    pub error: Option<String>,
    /// Whether SLURM may start a task again under the same id.
    pub requeue: bool,
    /// The user's own sbatch options.
    pub options: Vec<String>,
    /// This program's version.
    pub version: String,
    /// The sweep's name.
    pub sweep: String,
    /// Number of the array.
    pub array: u32,
    /// The sweep's folder, absolute.
    pub sweep_dir: String,
    /// The folder that holds a binary for each type of machine.
    pub bin_dir: String,
    /// Runs of each task, at most.
    pub count: u32,
    /// Several agents in each job, as `task:4`; empty: one.
    pub agents: String,
    /// The shell of the set-up lines; bash if it is empty.
    pub shell: String,
    /// Lines that it runs between the claim of a run and the agent.
    pub set_up: Vec<String>,
    /// Lines that it runs after the last run.
    pub teardown: Vec<String>,
}

/// Why a script cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    /// The template is at fault.
    #[error("{place}{what}")]
    Template {
        /// `line 3, column 9: `, where that is known.
        place: String,
        /// What is wrong there.
        what: String,
    },
    /// A value cannot be written into a script.
    #[error("{what} holds a line break, which no #SBATCH line can carry: `{value}`")]
    LineBreak {
        /// Whose value.
        what: &'static str,
        /// The value.
        value: String,
    },
}

impl From<handlebars::RenderError> for RenderError {
    fn from(error: handlebars::RenderError) -> Self {
        use handlebars::RenderErrorReason::{MissingVariable, TemplateError};
        let (place, what) = match error.reason() {
            TemplateError(error) => (error.pos(), error.reason().to_string()),
            MissingVariable(Some(name)) => (None, format!("there is no `{name}`")),
            reason => (None, reason.to_string()),
        };
        let place = place.or(error.line_no.zip(error.column_no));
        let place = place.map(|(line, column)| format!("line {line}, column {column}: "));
        Self::Template { place: place.unwrap_or_default(), what }
    }
}

/// Renders the script from the user's template, or from ours; every value is quoted for where it stands.
pub fn render(context: &ScriptContext, template: Option<&str>) -> Result<String, RenderError> {
    let lines = context.options.iter().map(|option| ("an sbatch option", option));
    for (what, value) in
        lines.chain([("the job's name", &context.job_name), ("the log's path", &context.output)])
    {
        if value.contains(['\n', '\r']) {
            return Err(RenderError::LineBreak { what, value: value.clone() });
        }
    }
    let mut handlebars = Handlebars::new();
    handlebars.set_strict_mode(true);
    handlebars.register_escape_fn(handlebars::no_escape);
    handlebars.register_helper("sh", Box::new(Quoting(quote)));
    handlebars.register_helper("directive", Box::new(Quoting(directive)));
    let template = template.unwrap_or(template::BUILT_IN[0].text);
    Ok(handlebars.render_template(template, context)?)
}

/// A helper that writes its only argument, quoted in some way.
struct Quoting(fn(&str) -> String);

impl HelperDef for Quoting {
    fn call<'reg: 'rc, 'rc>(
        &self,
        helper: &Helper<'rc>,
        _: &'reg Handlebars<'reg>,
        _: &'rc Context,
        _: &mut RenderContext<'reg, 'rc>,
        out: &mut dyn Output,
    ) -> HelperResult {
        let name = helper.name();
        let missing = |what: Option<String>| {
            let reason = what.map_or_else(
                || RenderErrorReason::ParamNotFoundForIndex("quoting", 0),
                |what| RenderErrorReason::MissingVariable(Some(what)),
            );
            Err(reason.into())
        };
        let Some(value) = helper.param(0) else { return missing(None) };
        match value.value().as_str() {
            Some(text) => Ok(out.write(&self.0(text))?),
            None if value.is_value_missing() => missing(value.relative_path().cloned()),
            None => {
                let text = format!("`{name}` quotes text, and this is none");
                Err(RenderErrorReason::Other(text).into())
            }
        }
    }
}

/// A word as a POSIX shell reads it back unchanged.
pub fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./=:,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// An option as sbatch reads it back from an #SBATCH line: it takes quotes and backslashes as a shell does.
fn directive(option: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./=:,@%+*[]".contains(c);
    if option.chars().all(plain) {
        return option.to_owned();
    }
    let escaped: String = option
        .chars()
        .flat_map(|c| ['\\'].into_iter().filter(move |_| "\"\\".contains(c)).chain([c]))
        .collect();
    format!("\"{escaped}\"")
}

/// A text as part of a job's or sweep's name: letters, digits, `_` and `-`, at most 40 of them.
pub fn slug(text: &str) -> String {
    let mut slug = String::new();
    for c in text.chars() {
        match c {
            c if c.is_ascii_alphanumeric() || c == '_' => slug.push(c),
            _ if slug.ends_with('-') || slug.is_empty() => {}
            _ => slug.push('-'),
        }
    }
    slug.truncate(40);
    let slug = slug.trim_end_matches('-');
    if slug.is_empty() { "sweep".to_owned() } else { slug.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn context() -> ScriptContext {
        ScriptContext {
            job_name: "lr-abc".into(),
            output: ".sweepctl/sweeps/lr/arrays/0/logs/%a.log".into(),
            error: None,
            requeue: true,
            options: vec!["--time=10".into(), "--comment=two words".into()],
            version: "0.1.0".into(),
            sweep: "lr".into(),
            array: 0,
            sweep_dir: "/home/ann/it's here/$(touch x)".into(),
            bin_dir: "/home/ann/bin".into(),
            count: 1,
            agents: String::new(),
            shell: String::new(),
            set_up: vec![
                "module load cuda/12".into(),
                "if true; then\n  . 'my venv/bin/activate'\nfi".into(),
            ],
            teardown: vec!["rm -rf \"$TMPDIR\"".into()],
        }
    }

    #[test]
    fn the_script_as_a_user_sees_it() {
        insta::assert_snapshot!(render(&context(), None).unwrap());
    }

    #[test]
    fn a_line_break_in_an_option_is_refused() {
        let mut context = context();
        context.options.push("--comment=a\n#SBATCH --array=0-999".into());
        assert!(render(&context, None).is_err());
    }

    proptest::proptest! {
        #[test]
        fn a_shell_reads_a_quoted_word_back(word in "[^\0]{0,30}") {
            let script = format!("printf %s {}", quote(&word));
            let output = std::process::Command::new("sh").arg("-c").arg(script).output().unwrap();
            proptest::prop_assert_eq!(String::from_utf8_lossy(&output.stdout), word);
        }
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(48))]

        /// Whatever stands in names, paths and lines, bash gives it to `job run` as it is.
        #[test]
        fn a_script_hands_every_value_on_as_it_is(
            folder in "[^\0/]{1,12}",
            sweep in "[A-Za-z0-9_-]{1,12}",
            lines in proptest::collection::vec("([^\0]|\n|\\$\\(x\\)|'|\"|\\\\){0,20}", 0..4),
            options in proptest::collection::vec("--[a-z]{1,5}=[^\0\r\n]{0,12}", 0..3),
        ) {
            proptest::prop_assume!(!["." , ".."].contains(&&*folder));
            let scratch = tempfile::tempdir().unwrap();
            let bin_dir = scratch.path().join(&folder);
            let uname = std::process::Command::new("uname").arg("-m").output().unwrap().stdout;
            let machine = bin_dir.join(String::from_utf8(uname).unwrap().trim());
            std::fs::create_dir_all(&machine).unwrap();
            let stand_in = "#!/bin/bash\nprintf '%s\\0' \"$@\"\n";
            let program = machine.join("sweepctl");
            std::fs::write(&program, stand_in).unwrap();
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(&program, mode).unwrap();
            let context = ScriptContext {
                sweep: sweep.clone(),
                sweep_dir: format!("/s/{folder}"),
                bin_dir: bin_dir.to_string_lossy().into_owned(),
                set_up: lines.clone(),
                teardown: lines.clone(),
                options,
                ..context()
            };
            let script = render(&context, None).unwrap();
            let bash = |args: &[&str]| {
                std::process::Command::new("bash").args(args).arg(&script).output().unwrap()
            };
            let checked = bash(&["-n", "-c"]);
            proptest::prop_assert!(checked.status.success(), "{script}");
            let printed = String::from_utf8(bash(&["-c"]).stdout).unwrap();
            let words: Vec<&str> = printed.split_terminator('\0').collect();
            let mut want = vec!["job", "run", "--dir", &context.sweep_dir, "--array", "0"];
            for flag in ["--set-up", "--teardown"] {
                lines.iter().for_each(|line| want.extend([flag, line]));
            }
            want.extend(["--", "sweepctl", "agent", "--count", "1", &sweep]);
            proptest::prop_assert_eq!(words, want);
        }
    }

    #[test]
    fn names_become_slugs() {
        assert_eq!(slug("Learning rate, 2nd try!"), "Learning-rate-2nd-try");
        assert_eq!(slug("…"), "sweep");
    }
}
