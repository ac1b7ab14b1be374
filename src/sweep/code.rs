//! The stable names of problems, for programs.

use std::fmt;

macro_rules! codes {
    ($($code:ident = $name:literal,)*) => {
        /// A stable name of a kind of problem, for programs; docs/reference/problems.md explains each.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[expect(missing_docs, reason = "docs/reference/problems.md has them, and a test holds that")]
        pub enum Code {
            $($code,)*
        }

        impl Code {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$code,)*];

            /// The name.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$code => $name,)*
                }
            }
        }
    };
}

codes! {
    // The text.
    AliasLoop = "alias-loop",
    ControlCharacter = "control-character",
    DuplicateKey = "duplicate-key",
    Empty = "empty",
    FileTooLarge = "file-too-large",
    KeyKind = "key-kind",
    MergeKey = "merge-key",
    NotAMapping = "not-a-mapping",
    NotUtf8 = "not-utf8",
    SeveralDocuments = "several-documents",
    Tab = "tab",
    Tag = "tag",
    TooDeep = "too-deep",
    TooManyValues = "too-many-values",
    YamlSyntax = "yaml-syntax",
    YamlValue = "yaml-value",
    // Values anywhere.
    Date = "date",
    ScientificNumber = "scientific-number",
    // The top level.
    ControllerKind = "controller-kind",
    EmbeddedController = "embedded-controller",
    EmptyKey = "empty-key",
    KindUnknown = "kind-unknown",
    LaunchConflict = "launch-conflict",
    LaunchKey = "launch-key",
    LaunchKind = "launch-kind",
    MethodMissing = "method-missing",
    MethodUnknown = "method-unknown",
    NothingToSearch = "nothing-to-search",
    RunCap = "run-cap",
    RunCapAboveGrid = "run-cap-above-grid",
    TextWanted = "text-wanted",
    UnknownKey = "unknown-key",
    // The metric.
    GoalUnknown = "goal-unknown",
    ImputeUnknown = "impute-unknown",
    MetricKind = "metric-kind",
    MetricMissing = "metric-missing",
    MetricName = "metric-name",
    MetricTarget = "metric-target",
    NoEffect = "no-effect",
    // Early termination.
    EarlyTerminateIncomplete = "early-terminate-incomplete",
    EarlyTerminateKind = "early-terminate-kind",
    EarlyTerminateNoBand = "early-terminate-no-band",
    EarlyTerminateType = "early-terminate-type",
    EarlyTerminateValue = "early-terminate-value",
    // The command.
    CommandKind = "command-kind",
    EnvvarLowerCase = "envvar-lower-case",
    MacroInsideItem = "macro-inside-item",
    NoArgsMacro = "no-args-macro",
    ProgramBlanks = "program-blanks",
    ProgramMissing = "program-missing",
    ProgramNotFound = "program-not-found",
    UnknownMacro = "unknown-macro",
    // Parameters.
    BoundKind = "bound-kind",
    BoundsMixed = "bounds-mixed",
    BoundsOrder = "bounds-order",
    DistributionUnknown = "distribution-unknown",
    DrawsTooLarge = "draws-too-large",
    GridContinuous = "grid-continuous",
    GridProbabilities = "grid-probabilities",
    LogBoundsLookLikeValues = "log-bounds-look-like-values",
    LogFromZero = "log-from-zero",
    NameChanges = "name-changes",
    NamePattern = "name-pattern",
    OldDistribution = "old-distribution",
    OneValue = "one-value",
    ParameterIncomplete = "parameter-incomplete",
    ParameterKeys = "parameter-keys",
    ParameterKind = "parameter-kind",
    ParameterNumber = "parameter-number",
    ParametersEmpty = "parameters-empty",
    ParametersKind = "parameters-kind",
    ParametersMissing = "parameters-missing",
    ProbabilitiesKind = "probabilities-kind",
    ProbabilitiesLength = "probabilities-length",
    ProbabilitiesSum = "probabilities-sum",
    ProbabilitiesWithBayes = "probabilities-with-bayes",
    QOutsideBounds = "q-outside-bounds",
    QTooCoarse = "q-too-coarse",
    QuotedBoolean = "quoted-boolean",
    ValuesEmpty = "values-empty",
    ValuesKind = "values-kind",
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
