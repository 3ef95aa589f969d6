"""Models of threading in virtual time: who runs which operator when, and how outputs leave."""
