//! Finds API keys that are written out where others can read them.

/// The ways to give a key that is written out nowhere.
pub const WAYS: &str = "run `wandb login` once on a login node, which keeps the key in ~/.netrc, or read it in a set-up line: `export WANDB_API_KEY=$(cat ~/.wandb-key)`";

/// A key of W&B's has 40 characters, newer ones more.
const KEY_LENGTH: usize = 20;

/// Whether a text sets W&B's API key to a literal: `WANDB_API_KEY=...`, `WANDB_API_KEY: ...` or `wandb login ...`.
///
/// A script that has one is readable by everyone who can read the state folder, `scontrol` or the process list. A key
/// that is taken from elsewhere, as `WANDB_API_KEY=$KEY`, is none.
#[must_use]
pub fn looks_like_key_literal(text: &str) -> bool {
    text.split("WANDB_API_KEY").skip(1).any(assigns_literal)
        || text.split("wandb login").skip(1).any(logs_in_with_literal)
}

/// Whether a shell, or YAML, would assign something here that is written out.
fn assigns_literal(behind: &str) -> bool {
    if let Some(value) = behind.strip_prefix('=') {
        return literal_start(value) > 0;
    }
    // In YAML. The word may also stand in a sentence, so this takes more to be sure.
    let value = behind.trim_start_matches(['"', '\'', ' ']).strip_prefix(':');
    value.is_some_and(|value| literal_start(value.trim_start()) >= 8)
}

/// How long the literal is that a value begins with.
fn literal_start(value: &str) -> usize {
    let value = value.trim_start_matches(['"', '\'']);
    value.chars().take_while(|c| c.is_ascii_alphanumeric() || "_-".contains(*c)).count()
}

fn logs_in_with_literal(arguments: &str) -> bool {
    let end = arguments.find(['\n', ';', '|', '&', '#']).unwrap_or(arguments.len());
    let mut words = arguments.get(..end).unwrap_or_default().split_whitespace();
    while let Some(word) = words.next() {
        if word == "--host" {
            words.next();
            continue;
        }
        let word = word.strip_prefix("--key=").unwrap_or(word).trim_matches(['"', '\'']);
        let is_key = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
        if !word.starts_with('-') && word.len() >= KEY_LENGTH && word.chars().all(is_key) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "0123456789abcdef0123456789abcdef01234567";

    #[test]
    fn a_key_that_is_written_out_is_seen() {
        for text in [
            format!("WANDB_API_KEY={KEY}"),
            format!("export WANDB_API_KEY=\"{KEY}\""),
            format!("export WANDB_API_KEY='{KEY}' A=1"),
            format!("WANDB_API_KEY=$X; WANDB_API_KEY=local-{KEY}"),
            "WANDB_API_KEY=short".to_owned(),
            format!("WANDB_API_KEY: {KEY}"),
            format!("\"WANDB_API_KEY\": '{KEY}'"),
            format!("wandb login {KEY}"),
            format!("wandb login --relogin '{KEY}'"),
            format!("wandb login --key={KEY}"),
            format!("wandb login --host https://wandb.example.com {KEY} >/dev/null"),
            format!("a\npython -m wandb login {KEY}"),
        ] {
            assert!(looks_like_key_literal(&text), "{text}");
        }
    }

    #[test]
    fn a_key_from_elsewhere_is_none() {
        for text in [
            "export WANDB_API_KEY=$KEY",
            "export WANDB_API_KEY=\"${KEY}\"",
            "export WANDB_API_KEY=\"$(cat ~/.key)\"",
            "WANDB_API_KEY=`cat ~/.key`",
            "WANDB_API_KEY= python x.py",
            "unset WANDB_API_KEY",
            "wandb login",
            "WANDB_API_KEY: $KEY",
            "the WANDB_API_KEY: see above",
            "git checkout 0123456789abcdef0123456789abcdef01234567",
            "wandb login && python 0123456789abcdef0123456789abcdef01234567.py",
            "wandb login \"$WANDB_API_KEY\"",
            "wandb login --host https://wandb.mycompany.example.com",
            "wandb login --host=https://wandb.mycompany.example.com",
            "wandb login; python a_program_with_a_very_long_name.py",
            "wandb login || some_function_with_a_long_name",
        ] {
            assert!(!looks_like_key_literal(text), "{text}");
        }
    }
}
