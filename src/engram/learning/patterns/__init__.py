"""Find success patterns and decision templates."""
