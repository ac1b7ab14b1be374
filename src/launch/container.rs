//! Programs in containers: the wrapper and its claim stay outside, the program runs inside.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// What starts a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Runtime {
    /// `apptainer exec`, or `singularity exec` where that is its name.
    Apptainer,
    /// A step of its own by `srun --container-image`, where SLURM has the pyxis plug-in.
    Pyxis,
    /// Words of the user's own in front of the program.
    Command,
}

/// A container in which a sweep's programs run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Container {
    /// What starts it.
    pub runtime: Runtime,
    /// The image: a file, or what the runtime takes for one. Empty only for words of the user's own.
    pub image: String,
    /// More arguments for the runtime, or the user's own words.
    pub args: Vec<String>,
    /// More folders to be seen inside, `SOURCE` or `SOURCE:TARGET`.
    pub mounts: Vec<String>,
    /// The folder inside; the job's own if it is `None`.
    pub workdir: Option<String>,
}

impl Runtime {
    /// What an image is for, judged by its name: pyxis takes bundles and registry names, apptainer the rest.
    #[must_use]
    pub fn of_image(image: &str) -> Self {
        let file =
            image.ends_with(".sif") || image.contains("://") || image.starts_with(['/', '.', '~']);
        if file && !image.ends_with(".sqsh") { Self::Apptainer } else { Self::Pyxis }
    }
}

impl Container {
    /// The argument list that runs `argv` inside, with `own` folders at their own paths.
    ///
    /// `exists` tells whether a program is on PATH here.
    #[must_use]
    pub fn argv(
        &self,
        argv: Vec<OsString>,
        cwd: &Path,
        own: &[PathBuf],
        exists: &dyn Fn(&str) -> bool,
    ) -> Vec<OsString> {
        let workdir = self.workdir.as_ref().map_or_else(|| cwd.into(), OsString::from);
        let mut outer: Vec<OsString> = Vec::new();
        let joined = |option: &str, value: OsString| {
            let mut word = OsString::from(option);
            word.push(value);
            word
        };
        match self.runtime {
            Runtime::Apptainer => {
                let name = if exists("apptainer") { "apptainer" } else { "singularity" };
                outer.extend([name.into(), "exec".into()]);
                for mount in
                    own.iter().map(OsString::from).chain(self.mounts.iter().map(OsString::from))
                {
                    outer.extend(["--bind".into(), mount]);
                }
                outer.extend(["--pwd".into(), workdir]);
                outer.extend(self.args.iter().map(OsString::from));
                outer.push(self.image.clone().into());
            }
            Runtime::Pyxis => {
                let mut mounts = OsString::new();
                let own = own.iter().map(|folder| {
                    let mut pair = OsString::from(folder);
                    pair.push(":");
                    pair.push(folder);
                    pair
                });
                for mount in own.chain(self.mounts.iter().map(OsString::from)) {
                    if !mounts.is_empty() {
                        mounts.push(",");
                    }
                    mounts.push(mount);
                }
                outer.extend(["srun".into(), "--ntasks=1".into(), "--nodes=1".into()]);
                outer.push(joined("--container-image=", self.image.clone().into()));
                outer.push(joined("--container-mounts=", mounts));
                outer.push(joined("--container-workdir=", workdir));
                outer.extend(self.args.iter().map(OsString::from));
            }
            Runtime::Command => {
                outer.extend(self.args.iter().map(OsString::from));
                if !self.image.is_empty() {
                    outer.push(self.image.clone().into());
                }
            }
        }
        outer.extend(argv);
        outer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(container: &Container, apptainer: bool) -> String {
        let argv = ["python", "t.py", "--x=1"].map(OsString::from).to_vec();
        let own = [PathBuf::from("/p"), PathBuf::from("/s/.sweepctl")];
        let argv = container.argv(argv, Path::new("/p"), &own, &|_| apptainer);
        let words: Vec<String> =
            argv.iter().map(|word| crate::launch::quote(&word.to_string_lossy())).collect();
        words.join(" ")
    }

    #[test]
    fn each_runtime_is_called_as_its_manual_has_it() {
        let mut container = Container {
            runtime: Runtime::Apptainer,
            image: "my image.sif".to_owned(),
            args: vec!["--nv".to_owned()],
            mounts: vec!["/data:/in".to_owned()],
            workdir: None,
        };
        let want = "exec --bind /p --bind /s/.sweepctl --bind /data:/in --pwd /p --nv 'my image.sif' python t.py --x=1";
        assert_eq!(words(&container, true), format!("apptainer {want}"));
        assert_eq!(words(&container, false), format!("singularity {want}"));
        container.runtime = Runtime::Pyxis;
        container.image = "org/img:tag".to_owned();
        container.args = vec!["--container-writable".to_owned()];
        container.workdir = Some("/work".to_owned());
        assert_eq!(
            words(&container, true),
            "srun --ntasks=1 --nodes=1 --container-image=org/img:tag \
             --container-mounts=/p:/p,/s/.sweepctl:/s/.sweepctl,/data:/in --container-workdir=/work \
             --container-writable python t.py --x=1"
        );
        container.runtime = Runtime::Command;
        container.args = ["enroot", "start"].map(str::to_owned).to_vec();
        assert_eq!(words(&container, true), "enroot start org/img:tag python t.py --x=1");
        container.image = String::new();
        assert_eq!(words(&container, true), "enroot start python t.py --x=1");
    }

    #[test]
    fn images_tell_what_they_are_for() {
        for image in ["a.sif", "docker://org/img", "/images/box", "./box", "library://x"] {
            assert_eq!(Runtime::of_image(image), Runtime::Apptainer, "{image}");
        }
        for image in ["org/img:tag", "img", "/images/a.sqsh", "nvcr.io#nvidia/pytorch:24.01-py3"] {
            assert_eq!(Runtime::of_image(image), Runtime::Pyxis, "{image}");
        }
    }
}
