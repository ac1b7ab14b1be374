//! The one place that starts programs of others: pinned environment, time limit, stderr kept.
