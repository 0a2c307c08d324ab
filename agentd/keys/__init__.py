"""Who is who: key files, the roster that the operator signed, and which roster is in force. No socket."""
