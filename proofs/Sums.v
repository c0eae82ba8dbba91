(** * Finite sums of real numbers

    Scores, shares and weights are functions [nat -> R], of which only the values
    at [0, ..., n-1] matter.  This file holds the rules of calculation that the
    other files use; none of them is a statement of the book. *)

From Coq Require Import Reals Lra Lia Arith List Permutation FinFun.
Open Scope R_scope.

Fixpoint sum (n : nat) (a : nat -> R) : R :=
  match n with
  | O => 0
  | S m => sum m a + a m
  end.

Notation "∑_( i < n ) e" := (sum n (fun i => e))
  (at level 35, e at level 40, i name, n at level 50,
   format "∑_( i  <  n )  e").

(** ** Rules of calculation *)

Lemma sum_ext n a b :
  (forall i, (i < n)%nat -> a i = b i) -> ∑_(i < n) a i = ∑_(i < n) b i.
Proof.
  induction n as [|n IH]; simpl; intros H; [reflexivity|].
  rewrite IH, H; auto.
Qed.

Lemma sum_plus n a b : ∑_(i < n) (a i + b i) = ∑_(i < n) a i + ∑_(i < n) b i.
Proof. induction n as [|n IH]; simpl; [|rewrite IH]; ring. Qed.

Lemma sum_minus n a b : ∑_(i < n) (a i - b i) = ∑_(i < n) a i - ∑_(i < n) b i.
Proof. induction n as [|n IH]; simpl; [|rewrite IH]; ring. Qed.

Lemma sum_scal n c a : ∑_(i < n) (c * a i) = c * ∑_(i < n) a i.
Proof. induction n as [|n IH]; simpl; [|rewrite IH]; ring. Qed.

Lemma sum_const n c : ∑_(i < n) c = INR n * c.
Proof.
  induction n as [|n IH]; [simpl; ring|].
  rewrite S_INR; simpl; rewrite IH; ring.
Qed.

Lemma sum_zero n : ∑_(i < n) 0 = 0.
Proof. rewrite sum_const; ring. Qed.

Lemma sum_swap n m (a : nat -> nat -> R) :
  ∑_(i < n) ∑_(j < m) a i j = ∑_(j < m) ∑_(i < n) a i j.
Proof.
  induction n as [|n IH]; simpl; [now rewrite sum_zero|].
  now rewrite IH, <- sum_plus.
Qed.

(** Of a sum with Kronecker's delta only the term [j] is left. *)
Lemma sum_delta n j a : (j < n)%nat ->
  ∑_(i < n) (if Nat.eqb i j then a i else 0) = a j.
Proof.
  induction n as [|n IH]; intros H; [lia|]; simpl.
  destruct (Nat.eqb_spec n j) as [->|Hn].
  - rewrite (sum_ext _ _ (fun _ => 0)), sum_zero; [ring|].
    intros i Hi; destruct (Nat.eqb_spec i j); [lia|reflexivity].
  - rewrite IH by lia; ring.
Qed.

Lemma sum_telescope n (a : nat -> R) : ∑_(j < n) (a (S j) - a j) = a n - a 0%nat.
Proof. induction n as [|n IH]; simpl; [|rewrite IH]; ring. Qed.

(** ** Permutations *)

(** [s] maps [0, ..., n-1] into itself, and no two of them to the same. *)
Definition permutation (n : nat) (s : nat -> nat) :=
  bFun n s /\ bInjective n s.

Lemma permutation_list n s : permutation n s -> Permutation (map s (seq 0 n)) (seq 0 n).
Proof.
  intros [Hb Hi]; apply NoDup_Permutation_bis.
  - apply NoDup_nth with (d := s 0%nat); rewrite map_length, seq_length.
    intros i j Hi' Hj'; rewrite !map_nth, !seq_nth by assumption; simpl; auto.
  - now rewrite map_length.
  - intros y Hy; apply in_map_iff in Hy as [j [<- Hj]].
    apply in_seq in Hj; apply in_seq; split; [lia|apply Hb; lia].
Qed.

Lemma sum_as_list n a : ∑_(i < n) a i = fold_right Rplus 0 (map a (seq 0 n)).
Proof.
  induction n as [|n IH]; [reflexivity|].
  rewrite seq_S, map_app, fold_right_app; simpl; rewrite IH.
  generalize (map a (seq 0 n)) as l; induction l as [|y l IHl]; simpl; [|rewrite <- IHl]; ring.
Qed.

(** A rearrangement does not change the sum. *)
Lemma sum_perm n s a : permutation n s -> ∑_(i < n) a (s i) = ∑_(i < n) a i.
Proof.
  intros Hs; rewrite !sum_as_list.
  replace (map (fun i => a (s i)) (seq 0 n)) with (map a (map s (seq 0 n)))
    by apply map_map.
  generalize (permutation_list n s Hs).
  generalize (map s (seq 0 n)) (seq 0 n); intros l l' Hp.
  induction Hp; simpl; lra.
Qed.

(** ** Order *)

Lemma sum_le n a b :
  (forall i, (i < n)%nat -> a i <= b i) -> ∑_(i < n) a i <= ∑_(i < n) b i.
Proof.
  induction n as [|n IH]; simpl; intros H; [lra|].
  apply Rplus_le_compat; auto.
Qed.

Lemma sum_lt n a b : (0 < n)%nat ->
  (forall i, (i < n)%nat -> a i < b i) -> ∑_(i < n) a i < ∑_(i < n) b i.
Proof.
  intros Hn H; destruct n as [|n]; [lia|]; simpl.
  apply Rplus_le_lt_compat; [|auto].
  apply sum_le; intros; apply Rlt_le; auto.
Qed.

Lemma sum_nonneg n a : (forall i, (i < n)%nat -> 0 <= a i) -> 0 <= ∑_(i < n) a i.
Proof. intros H; rewrite <- (sum_zero n); now apply sum_le. Qed.

Lemma sum_pos n a : (0 < n)%nat ->
  (forall i, (i < n)%nat -> 0 < a i) -> 0 < ∑_(i < n) a i.
Proof. intros Hn H; rewrite <- (sum_zero n); now apply sum_lt. Qed.

Lemma sum_abs n a : Rabs (∑_(i < n) a i) <= ∑_(i < n) Rabs (a i).
Proof.
  induction n as [|n IH]; simpl; [rewrite Rabs_R0; lra|].
  eapply Rle_trans; [apply Rabs_triang|lra].
Qed.

(** One of the terms of a positive sum is positive. *)
Lemma sum_pos_term n a : 0 < ∑_(i < n) a i -> exists j, (j < n)%nat /\ 0 < a j.
Proof.
  induction n as [|n IH]; simpl; [lra|intros H].
  destruct (Rlt_or_le 0 (a n)) as [Ha|Ha]; [exists n; auto|].
  destruct IH as [j [Hj Hp]]; [lra|exists j; auto].
Qed.

(** A term is at most the sum when all the terms are nonnegative. *)
Lemma term_le_sum n a j : (forall i, (i < n)%nat -> 0 <= a i) -> (j < n)%nat ->
  a j <= ∑_(i < n) a i.
Proof.
  intros H Hj; rewrite <- (sum_delta n j a Hj).
  apply sum_le; intros i Hi; destruct (Nat.eqb i j); [lra|auto].
Qed.

Lemma sum_lt_one n a b j : (forall i, (i < n)%nat -> a i <= b i) -> (j < n)%nat ->
  a j < b j -> ∑_(i < n) a i < ∑_(i < n) b i.
Proof.
  intros H Hj Hlt.
  assert (Ht : b j - a j <= ∑_(i < n) (b i - a i)).
  { apply (term_le_sum n (fun i => b i - a i)); [|exact Hj].
    intros i Hi; specialize (H i Hi); lra. }
  rewrite sum_minus in Ht; lra.
Qed.

(** Ordered term by term and equal in sum: equal term by term. *)
Lemma eq_of_sum_le n a b : (forall i, (i < n)%nat -> a i <= b i) ->
  ∑_(i < n) b i <= ∑_(i < n) a i -> forall i, (i < n)%nat -> a i = b i.
Proof.
  intros H Hs i Hi; destruct (H i Hi) as [Hlt|E]; [exfalso|exact E].
  pose proof (sum_lt_one n a b i H Hi Hlt); lra.
Qed.

(** Cauchy and Schwarz, from the square of [A b - S a]. *)
Lemma cauchy_schwarz n a b :
  (∑_(i < n) (a i * b i)) ^ 2 <= (∑_(i < n) a i ^ 2) * ∑_(i < n) b i ^ 2.
Proof.
  set (s := ∑_(i < n) (a i * b i)); set (A := ∑_(i < n) (a i ^ 2)).
  set (B := ∑_(i < n) (b i ^ 2)).
  assert (HA : 0 <= A) by (apply sum_nonneg; intros; apply pow2_ge_0).
  destruct HA as [HA|HA].
  - assert (H : 0 <= ∑_(i < n) ((A * b i - s * a i) ^ 2))
      by (apply sum_nonneg; intros; apply pow2_ge_0).
    rewrite (sum_ext n _ (fun i => (A ^ 2 * b i ^ 2 - 2 * A * s * (a i * b i))
      + s ^ 2 * a i ^ 2)) in H by (intros; ring).
    rewrite sum_plus, sum_minus, !sum_scal in H; fold s A B in H.
    apply Rmult_le_reg_l with A; [exact HA|lra].
  - assert (Hz : forall i, (i < n)%nat -> a i ^ 2 = 0).
    { intros i Hi; symmetry; apply (eq_of_sum_le n (fun _ => 0) (fun i => a i ^ 2)); auto.
      - intros; apply pow2_ge_0.
      - fold A; rewrite sum_zero; lra. }
    assert (E : s = 0).
    { unfold s; rewrite <- (sum_zero n); apply sum_ext; intros i Hi.
      specialize (Hz i Hi); assert (E : a i = 0) by nra; rewrite E; ring. }
    rewrite E, <- HA; lra.
Qed.
