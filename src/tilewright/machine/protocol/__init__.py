"""What does a launch do to its protocol? The slice of a kernel that control, addresses and synchronization need."""
