//! Where users want the output of their jobs: `--output` and `--error` with SLURM's % forms.

use std::path::{Path, PathBuf};

/// Why a log's name cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogNameError {
    /// A backslash makes SLURM take the whole name literally, up to 22.05 only in part.
    #[error("SLURM cannot write a log whose name has a backslash: `{0}`")]
    Backslash(String),
    /// SLURM does not make folders before 23.02, and fails the job without a word.
    #[error(
        "the folder of the log `{0}` depends on the job: SLURM does not make it, and the job would fail without a word"
    )]
    Folder(String),
    /// It is empty.
    #[error("a log needs a name")]
    Empty,
    /// It has a line break.
    #[error("a log's name cannot have a line break")]
    LineBreak,
}

/// A log's name in SLURM's notation, as it goes into the script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogName {
    /// With the job's name and the user's filled in: SLURM's `%x` would give the array's own name.
    pub pattern: String,
    /// The folder that must be there, absolute or from the job's folder.
    pub folder: PathBuf,
    /// Whether several tasks of a sweep write to the same file.
    pub is_shared: bool,
}

impl LogName {
    /// Reads a name as sbatch takes it; `job_name` stands for `%x`, `user` for `%u`, which stays if that is empty.
    ///
    /// A pattern that was read before stays as it is.
    pub fn read(text: &str, job_name: &str, user: &str) -> Result<Self, LogNameError> {
        if text.trim().is_empty() {
            return Err(LogNameError::Empty);
        }
        if text.contains('\\') {
            return Err(LogNameError::Backslash(text.to_owned()));
        }
        if text.contains(['\n', '\r']) {
            return Err(LogNameError::LineBreak);
        }
        let literal = |text: &str| text.replace('%', "%%");
        let mut pattern = String::new();
        let mut forms = Vec::new();
        let mut chars = text.chars().peekable();
        let mut folder_forms = 0;
        while let Some(c) = chars.next() {
            if c != '%' {
                if c == '/' {
                    folder_forms = forms.len();
                }
                pattern.push(c);
                continue;
            }
            let mut width = String::new();
            while let Some(digit) = chars.next_if(char::is_ascii_digit) {
                width.push(digit);
            }
            match chars.next() {
                Some('x') => pattern.push_str(&literal(job_name)),
                Some('u') if !user.is_empty() => pattern.push_str(&literal(user)),
                Some('%') => pattern.push_str("%%"),
                Some(form) => {
                    pattern.push('%');
                    pattern.push_str(&width);
                    pattern.push(form);
                    forms.push(form);
                }
                None => pattern.push('%'),
            }
        }
        if folder_forms > 0 {
            return Err(LogNameError::Folder(text.to_owned()));
        }
        let folder = pattern.rsplit_once('/').map_or("", |(folder, _)| folder).replace("%%", "%");
        let folder =
            if pattern.starts_with('/') && folder.is_empty() { "/".to_owned() } else { folder };
        // Arrays of a sweep have ids of their own, and their tasks begin at 0 each.
        let by_task = forms.contains(&'a') && (forms.contains(&'A') || forms.contains(&'J'));
        let is_shared = !(forms.contains(&'j') || by_task);
        Ok(Self { pattern, folder: PathBuf::from(folder), is_shared })
    }

    /// The folder that must be there before a job starts.
    #[must_use]
    pub fn folder_from(&self, job_folder: &Path) -> PathBuf {
        job_folder.join(&self.folder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_filled_in_and_say_whose_file_it_is() {
        let table = [
            ("logs/%x_%A_%a.out", "logs/lr_%A_%a.out", "logs", false),
            ("%x-%j.out", "lr-%j.out", "", false),
            ("logs/log%A_%3a.log", "logs/log%A_%3a.log", "logs", false),
            ("logs/log%A.out", "logs/log%A.out", "logs", true),
            ("%a.out", "%a.out", "", true),
            ("/dev/null", "/dev/null", "/dev", true),
            ("/x", "/x", "/", true),
            ("/s/%u/%x/out.%J", "/s/an%%n/lr/out.%J", "/s/an%n/lr", true),
            ("100%%/%j", "100%%/%j", "100%", false),
            ("end%", "end%", "", true),
            ("%N/../%j", "?", "", false),
        ];
        for (text, pattern, folder, is_shared) in table {
            let read = LogName::read(text, "lr", "an%n");
            if pattern == "?" {
                assert!(matches!(read, Err(LogNameError::Folder(_))), "{text}");
                continue;
            }
            let folder = PathBuf::from(folder);
            assert_eq!(LogName::read(pattern, "other", "").unwrap().pattern, pattern);
            assert_eq!(
                read,
                Ok(LogName { pattern: pattern.to_owned(), folder, is_shared }),
                "{text}"
            );
        }
        assert_eq!(LogName::read("", "lr", "ann"), Err(LogNameError::Empty));
        assert!(LogName::read("a\\b", "lr", "ann").is_err());
        assert!(LogName::read("a\n#SBATCH --array=1", "lr", "ann").is_err());
    }
}
