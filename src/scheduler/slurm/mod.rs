//! SLURM by its command-line programs.
