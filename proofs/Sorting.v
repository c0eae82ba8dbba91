(** * Nested selections make a soft permutation

    The differences of the selections with the budgets [0, 1, ..., n] form a matrix
    with nonnegative entries whose rows and columns sum to one
    ([nested_doubly_stochastic]); its first [k] rows, applied to the scores, sum to
    the scores weighted by the shares of budget [k] ([nested_partial_sums]). *)

From Coq Require Import Reals Lra Lia Arith.
From TopK Require Import Sums Selection.
Open Scope R_scope.

(** Selections [p 0, ..., p n] of the same scores with the budgets 0, ..., n. *)
Definition nested f n x (p : nat -> nat -> R) :=
  (forall i, p 0%nat i = 0) /\ (forall i, p n i = 1) /\
  (forall j, (0 < j < n)%nat -> shares f n x (INR j) (p j)).

(** Row [j] of the matrix: what the budget [j + 1] adds. *)
Definition place (p : nat -> nat -> R) j i := p (S j) i - p j i.

Theorem nested_doubly_stochastic f n x p : curve f -> nested f n x p ->
  (forall j i, (j < n)%nat -> (i < n)%nat -> 0 <= place p j i) /\
  (forall j, (j < n)%nat -> ∑_(i < n) place p j i = 1) /\
  (forall i, (i < n)%nat -> ∑_(j < n) place p j i = 1).
Proof.
  (* rows by the budgets, columns by telescoping, signs because shares grow *)
  intros Hf [H0 [Hn Hp]]; unfold place; repeat split.
  - intros j i Hj Hi.
    destruct (Nat.eq_dec j 0) as [->|Hj0].
    + rewrite H0; destruct (Nat.eq_dec 1 n) as [E|E]; [rewrite E, Hn; lra|].
      pose proof (shares_in_unit _ _ _ _ _ Hf (Hp 1%nat ltac:(lia)) i Hi); lra.
    + destruct (Nat.eq_dec (S j) n) as [E|E].
      * rewrite E, Hn.
        pose proof (shares_in_unit _ _ _ _ _ Hf (Hp j ltac:(lia)) i Hi); lra.
      * enough (p j i <= p (S j) i) by lra.
        apply (shares_grow f n x (INR j) (INR (S j))); auto; try (apply Hp; lia).
        apply le_INR; lia.
  - assert (E : forall j, (j <= n)%nat -> ∑_(i < n) p j i = INR j).
    { intros j Hj; destruct (Nat.eq_dec j 0) as [->|Hj0];
        [rewrite (sum_ext _ _ _ (fun i _ => H0 i)); apply sum_zero|].
      destruct (Nat.eq_dec j n) as [->|Hjn];
        [rewrite (sum_ext _ _ _ (fun i _ => Hn i)), sum_const; ring|].
      apply (shares_sum f n x); apply Hp; lia. }
    intros j Hj; rewrite sum_minus, !E, S_INR by lia; ring.
  - intros i Hi; rewrite (sum_telescope n (fun j => p j i)), H0, Hn; ring.
Qed.

Theorem nested_partial_sums f n x p k : nested f n x p ->
  ∑_(j < k) ∑_(i < n) (place p j i * x i) = ∑_(i < n) (p k i * x i).
Proof.
  intros [H0 _]; rewrite sum_swap; apply sum_ext; intros i Hi.
  rewrite (sum_ext k _ (fun j => x i * (p (S j) i - p j i)))
    by (intros; unfold place; ring).
  rewrite sum_scal, (sum_telescope k (fun j => p j i)), H0; ring.
Qed.
