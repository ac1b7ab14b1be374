//! The user program of a run: started in its own process group, signalled, waited for, cleaned up after.
