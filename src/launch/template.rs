//! Script templates: ours, and those that users make of it.

use super::{RenderError, ScriptContext, directive, quote};

/// A template that is compiled in.
#[derive(Clone, Copy, Debug)]
pub struct BuiltIn {
    /// Its name.
    pub name: &'static str,
    /// What it is for, in one line.
    pub about: &'static str,
    /// Its text.
    pub text: &'static str,
}

/// All of them; the first is used unless another is asked for.
pub const BUILT_IN: &[BuiltIn] = &[BuiltIn {
    name: "array",
    about: "an array job whose tasks each take their runs, one after the other",
    text: include_str!("../../templates/array.sbatch.hbs"),
}];

/// Everything that a template lacks or must not have, each in one line; empty if it can be used.
///
/// # Errors
/// If it cannot be rendered at all: where and why.
pub fn faults(template: &str) -> Result<Vec<String>, RenderError> {
    let mut faults = Vec::new();
    for requeue in [true, false] {
        let context = ScriptContext {
            job_name: "probe name".to_owned(),
            output: "logs of probe/%a.log".to_owned(),
            error: Some("errors of probe/%a.log".to_owned()),
            requeue,
            options: vec!["--comment=probe one".to_owned(), "--nice=2".to_owned()],
            version: "0".to_owned(),
            sweep: "probe sweep".to_owned(),
            array: 7,
            sweep_dir: "/probe dir".to_owned(),
            bin_dir: "/probe bin".to_owned(),
            count: 3,
            agents: "node:5".to_owned(),
            shell: "bash --probe".to_owned(),
            set_up: vec!["probe set-up".to_owned()],
            teardown: vec!["probe teardown".to_owned()],
        };
        for fault in faults_of(&super::render(&context, Some(template))?, &context) {
            if !faults.contains(&fault) {
                faults.push(fault);
            }
        }
    }
    Ok(faults)
}

fn faults_of(script: &str, context: &ScriptContext) -> Vec<String> {
    let mut faults = Vec::new();
    if !script.starts_with("#!") {
        faults.push("the first line must name the shell: `#!/bin/bash`".to_owned());
    }
    // sbatch reads no option behind the first line that is a command.
    let read = |line: &&str| line.trim().is_empty() || line.starts_with('#');
    let options: Vec<&str> = script
        .lines()
        .take_while(read)
        .filter_map(|line| line.strip_prefix("#SBATCH"))
        .map(str::trim)
        .collect();
    let requeue = if context.requeue { "--requeue" } else { "--no-requeue" };
    let wanted = [
        (directive(&format!("--job-name={}", context.job_name)), "{{directive job_name}}"),
        (directive(&format!("--output={}", context.output)), "{{directive output}}"),
        (
            directive(&format!("--error={}", context.error.clone().unwrap_or_default())),
            "{{directive error}}",
        ),
        ("--open-mode=append".to_owned(), ""),
        (requeue.to_owned(), ""),
    ];
    for (option, variable) in wanted {
        let name = option.trim_start_matches('"').split('=').next().unwrap_or_default();
        let same =
            |given: &&str| **given == option || given.replace('"', "") == option.replace('"', "");
        if !options.iter().any(same) {
            let how = match (name, variable) {
                ("--requeue" | "--no-requeue", _) => {
                    "{{#if requeue}} #SBATCH --requeue {{else}} #SBATCH --no-requeue {{/if}}"
                        .to_owned()
                }
                ("--error", _) => {
                    "{{#if error}} #SBATCH --error={{directive error}} {{/if}}".to_owned()
                }
                (_, "") => format!("#SBATCH {option}"),
                (name, variable) => format!("#SBATCH {name}={variable}"),
            };
            faults.push(format!("`{how}` is missing before the first command"));
        }
    }
    for option in &context.options {
        if !options.contains(&directive(option).as_str()) {
            let how = "{{#each options}} #SBATCH {{directive this}} {{/each}}";
            let fault = format!("`{how}` is missing before the first command");
            if !faults.contains(&fault) {
                faults.push(fault);
            }
        }
    }
    if options.iter().any(|option| option.starts_with("--array") || option.starts_with("-a")) {
        faults.push("`#SBATCH --array` must not be there: sweepctl gives it".to_owned());
    }
    let commands = script.replace("\\\n", " ");
    let commands: Vec<&str> = commands
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .collect();
    let wrapper = format!("job run --dir {} --array {}", quote(&context.sweep_dir), context.array);
    let agent = format!("agent --count {} {}", context.count, quote(&context.sweep));
    let plain = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let working = commands.iter().map(|line| plain(line)).find(|line| line.contains(&wrapper));
    match working {
        None => faults.push(
            "the claim and the record are missing: `\"$sweepctl\" job run --dir {{sh sweep_dir}} --array {{array}} -- ...`"
                .to_owned(),
        ),
        Some(line) => {
            if !line.split_once(" -- ").is_some_and(|(_, after)| after.contains(&agent)) {
                faults.push(
                    "the working line is missing: `sweepctl agent --count {{count}} {{sh sweep}}` behind `job run ... --`"
                        .to_owned(),
                );
            }
            let around = [
                ("--agents", &context.agents, "{{#if agents}} --agents {{agents}} {{/if}}"),
                ("--shell", &context.shell, "{{#if shell}} --shell {{sh shell}} {{/if}}"),
                ("--set-up", &context.set_up[0], "{{#each set_up}} --set-up {{sh this}} {{/each}}"),
                ("--teardown", &context.teardown[0], "{{#each teardown}} --teardown {{sh this}} {{/each}}"),
            ];
            let ours = line.split(" -- ").next().unwrap_or_default();
            for (flag, value, how) in around {
                if !ours.contains(&format!("{flag} {}", quote(value))) {
                    faults.push(format!("`{how}` is missing behind `job run`"));
                }
            }
            let before = line.split(&wrapper).next().unwrap_or_default();
            if ["srun", "mpirun", "mpiexec"].iter().any(|word| before.split(' ').any(|w| w == *word)) {
                faults.push(
                    "`job run` must not be under srun or mpirun: each rank would start an agent of its own".to_owned(),
                );
            }
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_templates_have_all_that_is_needed() {
        for template in BUILT_IN {
            assert_eq!(faults(template.text).unwrap(), [""; 0], "{}", template.name);
        }
    }

    #[test]
    fn every_variable_is_documented_in_the_template_itself() {
        let text = BUILT_IN[0].text;
        let comment = text.split("--}}").next().unwrap();
        let context = serde_json::to_value(super::super::tests::context()).unwrap();
        for name in context.as_object().unwrap().keys() {
            assert!(comment.contains(&format!("\n  {name} ")), "{name}");
        }
    }

    #[test]
    fn a_template_that_lost_a_part_is_refused_with_the_part() {
        let text = BUILT_IN[0].text;
        let table = [
            ("#SBATCH --job-name={{directive job_name}}\n", "", "job-name"),
            ("#SBATCH --output={{directive output}}\n", "", "--output="),
            ("#SBATCH --error={{directive error}}\n", "", "{{#if error}}"),
            ("#SBATCH --open-mode=append\n", "", "--open-mode=append"),
            ("#SBATCH --requeue\n", "", "{{#if requeue}}"),
            ("#SBATCH --no-requeue\n", "", "{{#if requeue}}"),
            ("#SBATCH {{directive this}}\n", "", "{{#each options}}"),
            ("job run --dir {{sh sweep_dir}}", "job go", "claim and the record"),
            ("--array {{array}}", "--array 0", "claim and the record"),
            ("agent --count {{count}}", "agent --count 1", "working line"),
            ("  --agents {{agents}} \\\n", "", "--agents"),
            ("  --shell {{sh shell}} \\\n", "", "--shell"),
            ("  --set-up {{sh this}} \\\n", "", "--set-up"),
            ("  --teardown {{sh this}} \\\n", "", "--teardown"),
            ("exec \"$sweepctl\" job run", "srun \"$sweepctl\" job run", "each rank"),
            ("exec \"$sweepctl\" job run", "# \"$sweepctl\" job run", "claim and the record"),
            ("#!/bin/bash\n", "", "names the shell"),
            (
                "#SBATCH --open-mode=append\n",
                "set -e\n#SBATCH --open-mode=append\n",
                "before the first command",
            ),
            (
                "#SBATCH --open-mode=append\n",
                "#SBATCH --open-mode=append\n#SBATCH --array=0-3\n",
                "must not be there",
            ),
        ];
        for (part, other, want) in table {
            assert!(text.contains(part), "{part}");
            let found = faults(&text.replace(part, other)).unwrap();
            let want = want.replace("names the shell", "name the shell");
            assert!(found.iter().any(|fault| fault.contains(&want)), "{part}: {found:?}");
        }
    }

    #[test]
    fn an_unknown_name_has_its_place() {
        let error = faults("#!/bin/bash\n\n#SBATCH {{jobname}}\n").unwrap_err().to_string();
        assert_eq!(error, "line 3, column 9: there is no `jobname`");
        let error = faults("#!/bin/bash\n#SBATCH {{sh jobname}}\n").unwrap_err().to_string();
        assert_eq!(error, "line 2, column 9: there is no `jobname`");
        let error = faults("#!/bin/bash\n{{sh array}}\n").unwrap_err().to_string();
        assert_eq!(error, "line 2, column 1: `sh` quotes text, and this is none");
        let error = faults("#!/bin/bash\n{{#if requeue}}\n").unwrap_err().to_string();
        assert!(error.starts_with("line "), "{error}");
    }
}
