"""What do mbarriers, named barriers and cluster barriers do?"""
