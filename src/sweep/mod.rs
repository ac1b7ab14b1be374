//! The sweep file: read, checked, turned into argument lists.
