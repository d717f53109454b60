-- leader: when a pod is killed, and the final check. The pod that leads, and since when.
select epoch, holder, at from troupe.leader_epoch
